"""Other repositories: remotes, what is fetched and pushed, and how lines that went on without each other come together.

docs/explanation/sync.md has the rules."""
