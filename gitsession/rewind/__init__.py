"""Files and conversation back to where they were at an entry: planned, carried out, resumed, taken back."""
