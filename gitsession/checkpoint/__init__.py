"""What the files of a workspace were, moment by moment, on a line of a session; and whose change was whose."""
