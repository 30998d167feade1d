"""Export of sessions as files for an agent, for people, or for programs."""

HTML = "html"
"""The format of web pages, which ``web.export`` writes. They are for people, and cannot be imported."""
