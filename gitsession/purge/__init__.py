"""Permanent removal of entries and sessions."""
