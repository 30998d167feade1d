"""Sessions written as files of an agent, or for people to read."""
