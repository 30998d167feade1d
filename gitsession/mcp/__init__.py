"""The server of the Model Context Protocol: agents search and read past sessions while they work."""
