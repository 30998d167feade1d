"""Recorded states of a workspace, and rewinds to them."""
