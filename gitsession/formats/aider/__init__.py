"""The session format of Aider."""
