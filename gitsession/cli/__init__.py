"""The command line. The module of a command is imported when the command runs or its help is shown.

To keep help and completion fast, the modules of commands import most of the library inside functions, or through
``gitsession``.

Code that other programs can use belongs in other packages.
"""
