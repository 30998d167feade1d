"""Validation of proposed refs, both refs that others push to a server and refs that are fetched."""
