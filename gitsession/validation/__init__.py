"""Validation of proposed refs: refs that are pushed to a server, and refs that are fetched."""
