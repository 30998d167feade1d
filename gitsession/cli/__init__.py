"""The command line. The module of a command is imported when the command runs or its help is shown.

Modules of commands import most of the library in the functions that use it, or through ``gitsession``, so that help and
completion are fast.

Code that other programs can use belongs in other packages.
"""
