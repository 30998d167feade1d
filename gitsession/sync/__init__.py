"""Synchronization with other repositories: remotes, fetch and push, and the merge of diverged branches.

The rules are in docs/explanation/sync.md.
"""
