"""Our words around what the model hears as the user's and the user did not say: summaries and shell commands."""

from __future__ import annotations

from gitsession.model.entries import BranchSummary, Compaction, Message

_EARLIER = "What happened before this point in the conversation, in summary:"
_ELSEWHERE = "What was tried on another branch of this conversation, in summary:"


def user_text(entry: Compaction | BranchSummary | Message) -> str:
    """The words for a summary or a shell command; empty where there is nothing to say."""
    if isinstance(entry, Message):
        return _shell(entry)
    if not entry.summary.strip():
        return ""
    head = _EARLIER if isinstance(entry, Compaction) else _ELSEWHERE
    return f"{head}\n\n<summary>\n{entry.summary.replace('</summary>', '< /summary>')}\n</summary>"


def _shell(entry: Message) -> str:
    said = [f"The user ran this:\n```\n{entry.command or ''}\n```"]
    said.append(f"It printed:\n```\n{entry.output}\n```" if entry.output else "It printed nothing.")
    if entry.extra.get("cancelled") is True:
        said.append("The user stopped it.")
    elif entry.exit_code:
        said.append(f"Its exit code was {entry.exit_code}.")
    return "\n".join(said)
