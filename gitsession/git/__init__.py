"""git itself, without anything of sessions: objects, and the engine that works on them."""
