"""What happens while an agent works: its hooks' events, the spool they wait in, and how the store gets them."""
