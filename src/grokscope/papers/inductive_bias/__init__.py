"""Explaining grokking in transformers through the lens of inductive bias (arXiv 2602.06702)."""
