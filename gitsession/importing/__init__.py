"""Import of agents' sessions into the store."""
