"""Removal for good, of entries or of whole sessions."""
