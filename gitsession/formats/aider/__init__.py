"""The sessions of Aider."""
