"""The terminal browser: screens that list sessions and show their branches, conversations and files.

``browse`` in ``app.py`` runs it. Only this package imports Textual, which is installed with ``gitsession[tui]``.
Modules without Textual prepare what the screens show: ``tree_rows.py`` lays out a tree, ``entry_text.py`` reads
entries, and ``prompts.py`` sums up the files that each prompt changed.
"""
