"""Sessions in commits: entries, histories, branches, labels and the operation log."""
