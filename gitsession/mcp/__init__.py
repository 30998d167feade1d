"""The server of the Model Context Protocol: tools and resources by which agents read recorded sessions."""
