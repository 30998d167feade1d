"""Live capture: the events of agents' hooks, the spool they wait in, and their ingestion."""
