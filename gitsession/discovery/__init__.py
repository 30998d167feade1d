"""Where the sessions of agents are on this machine."""
