"""Options of a summarizer from flags or git's configuration, validated once."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from gitsession.errors import SummaryFailed

APIS = ("openai-chat", "openai-responses", "anthropic")

DEFAULT_TIME_LIMIT_S = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options of a summarizer.

    ``command``: a program and its arguments. ``key_name``: the variable in ``environ`` that holds the key. The key
    itself is not stored here, nor shown by ``repr``. ``prompt``: a name for ``prompts.named``.
    """

    name: str = "extractive"
    command: tuple[str, ...] = ()
    api: str = "openai-chat"
    url: str = ""
    model: str = ""
    key_name: str = ""
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    prompt: str = "default"
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


def from_config(config: Mapping[str, str], environ: Mapping[str, str]) -> Options:
    """Return the options from ``gitsession.summarizer*``. Raises ``SummaryFailed`` if a value is invalid.

    Keys of ``config`` are in lower case, as git lists them. It must be the user's configuration, never a store's: it
    names a program to run, and where a session is sent.
    """

    def said(name: str, otherwise: str = "") -> str:
        return config.get(f"gitsession.summarizer{name}", otherwise)

    api = said("api", APIS[0])
    if api not in APIS:
        raise SummaryFailed(f"unknown API {api!r} in gitsession.summarizerApi", hint=f"choose one of {', '.join(APIS)}")
    try:
        command = tuple(shlex.split(said("command")))
        time_limit_s = float(said("timelimit", str(DEFAULT_TIME_LIMIT_S)))
    except ValueError as error:
        raise SummaryFailed(f"invalid gitsession.summarizerCommand or summarizerTimeLimit: {error}") from None
    if not 0 < time_limit_s < float("inf"):
        raise SummaryFailed(
            f"invalid gitsession.summarizerTimeLimit: {time_limit_s}", hint="set it to a positive number of seconds"
        )
    return Options(
        name=said("", "extractive"),
        command=command,
        api=api,
        url=said("url"),
        model=said("model"),
        key_name=said("key"),
        time_limit_s=time_limit_s,
        prompt=said("prompt", "default"),
        environ=environ,
    )
