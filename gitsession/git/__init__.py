"""Git's objects, packs, refs, and processes. From gitsession, it imports only errors and durable file operations."""
