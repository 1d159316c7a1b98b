"""Papers as code: what they claim, tested. Depends on every other room; none depends on it."""
