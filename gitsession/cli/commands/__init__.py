"""The commands, in modules by topic. ``cli.app.COMMANDS`` maps each command to its module."""
