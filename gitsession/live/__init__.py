"""Live capture: agents' hook events, the spool in which they wait, and their ingestion."""
