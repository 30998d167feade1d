"""Git's objects, packs, refs, and processes. Imports nothing of gitsession but errors and durable files."""
