"""Sessions as commits: entries, histories, branches, labels, the operation log."""
