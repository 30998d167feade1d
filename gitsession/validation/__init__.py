"""Rules for what others send."""
