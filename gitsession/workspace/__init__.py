"""The user's files, and the trees that hold them: exact bytes and modes, both ways. Knows git's objects, no session.

A *path* here is text as it stands in a tree of ours: relative to the workspace, components joined by ``/``, each
written as ``workspace.names`` says. Only ``workspace.root`` makes a name on the disk of it.
"""
