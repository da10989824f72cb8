"""A plain-Python reference model of the manager, and the state machine that compares the two."""
