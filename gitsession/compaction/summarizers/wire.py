"""How each of the three HTTP APIs is asked for a text, and how its answer says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gitsession.compaction.prompts import Prompt
from gitsession.compaction.summary import Summary

_OPENAI = "https://api.openai.com"
_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class Api:
    """``address``: from the base address that a server's manual gives. ``read`` raises what bad JSON makes it raise."""

    name: str
    address: Callable[[str], str]
    headers: Callable[[str], dict[str, str]]
    body: Callable[[str, str, Prompt, int], dict[str, Any]]
    read: Callable[[Any], Summary]


def complaint(answer: bytes) -> str:
    """The words of an error, where they stand in all three APIs; "" where there are none."""
    try:
        error = json.loads(answer)["error"]
        words = error if isinstance(error, str) else error["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return words if isinstance(words, str) else ""


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _chat_address(base: str) -> str:
    return f"{base}/chat/completions"


def _chat_body(base: str, model: str, prompt: Prompt, max_tokens: int) -> dict[str, Any]:
    # OpenAI's own models refuse the name that all other servers know.
    limit = "max_completion_tokens" if base.startswith(_OPENAI) else "max_tokens"
    said = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    return {"model": model, "messages": said, limit: max_tokens, "stream": False}


def _chat_read(answer: Any) -> Summary:
    choice = answer["choices"][0]
    text = choice["message"]["content"] or ""
    if isinstance(text, list):
        text = "".join(part.get("text", "") for part in text)
    usage = _usage(answer.get("usage"), "prompt_tokens", "completion_tokens")
    return Summary(text.strip(), choice.get("finish_reason") == "length", usage)


def _responses_address(base: str) -> str:
    return f"{base}/responses"


def _responses_body(_base: str, model: str, prompt: Prompt, max_tokens: int) -> dict[str, Any]:
    return {
        "model": model,
        "instructions": prompt.system,
        "input": prompt.user,
        "max_output_tokens": max_tokens,
        "store": False,
        "stream": False,
    }


def _responses_read(answer: Any) -> Summary:
    parts = [part for item in answer["output"] if item["type"] == "message" for part in item["content"]]
    text = "".join(part["text"] for part in parts if part["type"] == "output_text")
    usage = _usage(answer.get("usage"), "input_tokens", "output_tokens")
    return Summary(text.strip(), answer.get("status") == "incomplete", usage)


def _anthropic_address(base: str) -> str:
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"


def _anthropic_headers(key: str) -> dict[str, str]:
    return {"anthropic-version": _ANTHROPIC_VERSION, **({"x-api-key": key} if key else {})}


def _anthropic_body(_base: str, model: str, prompt: Prompt, max_tokens: int) -> dict[str, Any]:
    said = [{"role": "user", "content": prompt.user}]
    return {"model": model, "system": prompt.system, "messages": said, "max_tokens": max_tokens}


def _anthropic_read(answer: Any) -> Summary:
    text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
    cut_off = answer.get("stop_reason") in ("max_tokens", "model_context_window_exceeded")
    return Summary(text.strip(), cut_off, _usage(answer.get("usage"), "input_tokens", "output_tokens"))


def _usage(stated: Any, input_name: str, output_name: str) -> Mapping[str, int]:
    if not isinstance(stated, Mapping):
        return {}
    counts = {"input": stated.get(input_name), "output": stated.get(output_name)}
    return {name: count for name, count in counts.items() if isinstance(count, int)}


APIS = {
    "openai-chat": Api("openai-chat", _chat_address, _bearer, _chat_body, _chat_read),
    "openai-responses": Api("openai-responses", _responses_address, _bearer, _responses_body, _responses_read),
    "anthropic": Api("anthropic", _anthropic_address, _anthropic_headers, _anthropic_body, _anthropic_read),
}
