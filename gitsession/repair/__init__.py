"""Repair of damaged stores from copies."""
