"""One command a file. ``cli.app.COMMANDS`` lists them; each file offers ``command``."""
