"""Archived sessions, and sessions in the trash."""
