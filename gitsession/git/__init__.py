"""Git's objects, packs, refs, and processes. Of gitsession, this package imports only errors and file operations."""
