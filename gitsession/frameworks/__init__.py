"""Adapters for frameworks. Each module implements the interface by which one framework keeps its sessions.

Import a module by its name, such as ``gitsession.frameworks.langgraph``. This package imports none of them, so that
nobody needs a framework that they do not use.
"""
