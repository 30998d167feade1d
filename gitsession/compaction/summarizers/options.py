"""Options of a summarizer, which come from command-line options or git's configuration."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import field, replace

from gitsession.dataclass import dataclass
from gitsession.errors import SummaryFailed
from gitsession.git import process

APIS = ("openai-chat", "openai-responses", "anthropic")

DEFAULT_TIME_LIMIT_S = 300.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options of a summarizer.

    Attributes:
        name: Name of the summarizer.
        command: Program and its arguments.
        api: Name of the HTTP API.
        url: Base URL of the HTTP API.
        model: Name of the model.
        key_name: Name of the variable in ``environ`` that contains the key. The key itself is neither stored here nor
            printed by ``repr``.
        time_limit_s: Time limit for a request or a program, in seconds.
        prompt: Name of a prompt (see ``prompts.find_prompt``).
        environ: Environment variables.
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
    """Return the options from the settings ``gitsession.summarizer*``. Raises ``SummaryFailed`` if a value is invalid.

    The keys of ``config`` are in lower case, as git lists them. ``config`` must be the user's configuration and never
    that of a store, because these settings determine which program runs and to which server a session is sent.
    """

    def setting(name: str, otherwise: str = "") -> str:
        return config.get(f"gitsession.summarizer{name}", otherwise)

    api = setting("api", APIS[0])
    if api not in APIS:
        raise SummaryFailed(f"unknown API {api!r} in gitsession.summarizerApi", hint=f"choose one of {', '.join(APIS)}")
    try:
        command = tuple(shlex.split(setting("command")))
        time_limit_s = float(setting("timelimit", str(DEFAULT_TIME_LIMIT_S)))
    except ValueError as error:
        names = "gitsession.summarizerCommand or gitsession.summarizerTimeLimit"
        raise SummaryFailed(f"invalid value for {names}: {error}") from None
    if not 0 < time_limit_s < float("inf"):
        raise SummaryFailed(
            f"invalid value for gitsession.summarizerTimeLimit: {time_limit_s}",
            hint="set it to a positive number of seconds",
        )
    return Options(
        name=setting("", "extractive"),
        command=command,
        api=api,
        url=setting("url"),
        model=setting("model"),
        key_name=setting("key"),
        time_limit_s=time_limit_s,
        prompt=setting("prompt", "default"),
        environ=environ,
    )


def users_options(wanted: str = "") -> Options:
    """Return the options in ``git config --global``. Settings in a store's configuration are ignored.

    ``wanted``: ``NAME`` or ``NAME:MODEL``, which replace the configured summarizer and its model.
    """
    options = from_config(process.user_settings("gitsession.summarizer"), os.environ)
    name, _, model = wanted.partition(":")
    return replace(options, name=name or options.name, model=model or options.model)
