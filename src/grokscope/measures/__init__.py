"""What is measured: pure functions to named scalars or small arrays."""
