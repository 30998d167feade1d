"""A bare repository as a server of sessions, and its hooks."""
