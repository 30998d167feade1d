"""Tests of ``Growing.split_rest``, which must return what ``Format.split`` returns for the whole file."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from growing_files import CUTS, GROWING, versions
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gitsession.errors import Malformed
from gitsession.formats import FORMATS, Growing


@pytest.mark.parametrize("agent", GROWING)
@given(data=st.data(), cuts=CUTS)
@settings(max_examples=200)
def test_rest_of_a_file_is_split_as_in_the_whole_file(agent: str, data: st.DataObject, cuts: list[float]) -> None:
    strategy, name = GROWING[agent]
    name, format = name.removesuffix(".jsonl"), FORMATS[agent]
    assert isinstance(format, Growing)
    for before, after in pairwise(versions(data.draw(strategy), cuts)):
        try:
            state = format.split(before, name=name).state
        except Malformed:
            continue
        found = format.split_rest(after, state._replace(values=_plain(state.values)), name=name) if state else None
        event("continued" if found is not None else "whole")
        if found is not None:
            whole = format.split(after, name=name)
            assert found.records == whole.records[found.earlier :]
            names = set(whole.__dataclass_fields__) - {"records", "earlier", "state", "base"}
            assert {each: getattr(found, each) for each in names} == {each: getattr(whole, each) for each in names}
            assert _plain(found.state) == _plain(whole.state)


def _plain(state: object) -> object:
    return json.loads(json.dumps(state))
