"""The user's files, and git trees with their exact bytes and modes. This package does not depend on sessions.

A *path* in this package is text in the form that is used in trees: relative to the workspace, with components joined by
``/`` and escaped by ``workspace.names``. Only ``workspace.root`` converts a path to a name on the disk.
"""
