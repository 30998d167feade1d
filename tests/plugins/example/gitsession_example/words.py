"""A tokenizer for the models of one provider, whose tokens are words."""


def count(text: str, model: str | None) -> int | None:
    """Return the number of words, or ``None`` for the models of other providers."""
    if not (model or "").startswith("example/"):
        return None
    return len(text.split())
