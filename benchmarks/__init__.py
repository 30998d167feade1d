"""Benchmarks of gitsession, each with a peer in the same run: ``python -m benchmarks`` (docs/benchmarks.md).

They are not part of the package or of the test suite: no test asserts a time. ``rows/`` has a module for each family of
measurements and ``peers/`` one for each peer. ``page.py`` writes the results into docs/benchmarks.md.
"""
