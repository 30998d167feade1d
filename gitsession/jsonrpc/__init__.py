"""JSON-RPC 2.0 over standard input and output: the loop of a server, and the schemas of its methods."""
