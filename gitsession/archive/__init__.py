"""Sessions put away: archived, or in the trash."""
