"""Export of sessions as files of an agent, or for people to read."""
