"""Benchmarks of gitsession, each against a peer in the same run: ``python -m benchmarks`` (docs/benchmarks.md).

They are not part of the package or of the test suite: no test asserts a time. ``rows/`` is a table of what is
measured, ``peers/`` a table of the peers, and ``page.py`` writes the results into docs/benchmarks.md.
"""
