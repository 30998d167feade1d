"""The commands, grouped by topic. ``cli.app.COMMANDS`` has the module of each."""
