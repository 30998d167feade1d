"""Plugins for gitsession."""
