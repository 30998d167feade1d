"""Synchronization with other repositories: remotes, pull and push, and purges between stores.

The rules are in docs/explanation/sync.md.
"""
