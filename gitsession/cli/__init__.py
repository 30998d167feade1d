"""The command line. The module of a command is imported when the command runs.

Code that other programs can use belongs in other packages.
"""
