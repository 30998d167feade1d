"""A summarizer that lists the questions of the user, and a prompt for summarizers that use a model."""

from gitsession import Request, Summary
from gitsession.compaction.prompts import Prompt
from gitsession.compaction.summarizers.options import Options


class Questions:
    def summarise(self, request, *, progress, cancelled):
        progress("listing the questions")
        asked = [item.text.strip() for item in request.items if item.by == "user"]
        questions = [text for text in asked if text.endswith("?")]
        return Summary("The user asked:\n" + "".join(f"- {text}\n" for text in questions or ["nothing"]))


def make(options: Options) -> Questions:
    return Questions()


def haiku(request: Request) -> Prompt:
    return Prompt("Summarize the conversation as a haiku.", request.conversation)
