"""Git's objects, packs, refs, and processes. This package imports only gitsession's errors and file operations."""
