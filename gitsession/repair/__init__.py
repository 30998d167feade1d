"""Damaged stores healed from copies."""
