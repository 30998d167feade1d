"""Values and functions that the formats of several agents share."""
