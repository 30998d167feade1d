"""Live capture: the events of agents' hooks, the spool in which they wait, and their ingestion."""
