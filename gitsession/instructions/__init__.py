"""Loaders of the instructions of agents: files, memory, rules and skills (docs/reference/instructions.md).

There is one module per agent. Files are read, and nothing is written or fetched.
"""
