"""Secrets: rules, secret scanning, redaction with placeholders, and the vault of originals."""
