"""Grokking as Structural Inference (arXiv 2605.15787)."""
