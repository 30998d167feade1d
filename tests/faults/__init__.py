"""Fault injection, and the checks of a store after a fault.

``work`` has the commands that run on a store. ``shim`` (``fi.c``, ``worker``) runs them in a process whose system calls
fail, or which is killed at one of them. ``crash`` replays a log of calls and generates every disk state that a power
cut can leave. ``powercut`` makes real power cuts of a file system in an image. ``full`` has small disks. ``invariants``
has the checks. ``bench`` combines all of them.
"""
