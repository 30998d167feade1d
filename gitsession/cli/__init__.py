"""The command line. Each command is loaded on its own. Code that another program could use belongs elsewhere."""
