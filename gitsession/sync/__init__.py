"""Synchronization with other repositories: remotes, fetch and push, and the merge of diverged branches.

docs/explanation/sync.md has the rules.
"""
