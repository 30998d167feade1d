"""The user's files and the trees that hold them, with exact bytes and modes. It uses git objects, but no sessions.

A *path* in this package is text as in a tree: relative to the workspace, components joined by ``/``, each written as in
``workspace.names``. Only ``workspace.root`` converts it to a name on the disk.
"""
