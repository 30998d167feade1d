"""Validation of proposed refs: what others push to a server, and what is fetched."""
