"""Installed distributions with plugins: folders for Python's search path."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

_numbers = itertools.count(1)


def distribution(
    folder: Path, points: Mapping[str, str], code: str = "", *, name: str = "acme-tools", version: str = "1.0"
) -> Path:
    """Write a distribution to ``folder``, as an installation does, and return the folder.

    Args:
        folder: The folder.
        points: Entry points, as ``{"formats:chatlog": "Chatlog"}``. The value is an attribute of the module.
        code: Code of the module. Each module has a name of its own.
        name: Name of the distribution.
        version: Version of the distribution.
    """
    module = f"acme_module_{next(_numbers)}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    sections = (
        f"[gitsession.{kind}]\n{point} = {module}:{attribute}\n"
        for (kind, _, point), attribute in ((key.partition(":"), value) for key, value in points.items())
    )
    (info / "entry_points.txt").write_text("\n".join(sections))
    return folder
