"""The session format of librecode."""
