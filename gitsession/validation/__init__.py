"""Validation of proposed refs: refs that others push to a server, and fetched refs."""
