"""See why, and when, a transformer groks."""
