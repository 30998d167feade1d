"""Checks of a store."""
