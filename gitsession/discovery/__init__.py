"""Search for agents' sessions on this machine."""
