"""What gitsession costs, each path against a peer in the same run: ``python -m benchmarks`` (docs/benchmarks.md).

Not a part of the package and not of the suite: nothing here is asserted on time. ``rows/`` is a table of what is
measured, ``peers/`` of whom it is measured against; ``page.py`` writes what was found into docs/benchmarks.md.
"""
