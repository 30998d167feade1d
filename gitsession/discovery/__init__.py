"""Search for the sessions of agents on this machine."""
