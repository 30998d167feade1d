"""The commands, grouped by what they are about; ``cli.app.COMMANDS`` says in which module each is."""
