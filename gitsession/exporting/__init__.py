"""Export of sessions as files for an agent, for people, or for programs."""
