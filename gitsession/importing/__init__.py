"""Sessions of agents brought into the store."""
