"""The sessions of librecode."""
