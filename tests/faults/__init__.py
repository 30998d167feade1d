"""Faults to inject, and the one judge of what a store looks like afterwards.

``work``: what is done to a store. ``shim`` (``fi.c``, ``worker``): does it in a process whose system calls fail, or
that is killed there. ``crash``: replays a log of calls as every disk a power cut could leave. ``powercut``: real cuts
of a file system in an image. ``full``: small disks. ``invariants``: the judge. ``bench``: all of them, put together.
"""
