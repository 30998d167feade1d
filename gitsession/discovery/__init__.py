"""Search for agents' sessions on this machine, and for the sessions that changed a file."""
