"""Secrets: what they look like, where they are, what stands in their place, and where the originals are."""
