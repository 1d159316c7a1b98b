"""What a person reads: the pages of runs and of papers."""
