"""The user's files, and git trees that contain them with exact bytes and modes. This package does not use sessions.

A *path* in this package is text in the form that trees use: relative to the workspace, with components joined by ``/``
and escaped by ``workspace.names``. Only ``workspace.root`` converts a path to a name on the disk.
"""
