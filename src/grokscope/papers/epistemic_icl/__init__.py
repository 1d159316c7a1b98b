"""A Bayesian Perspective on the Role of Epistemic Uncertainty for Delayed Generalization in
In-Context Learning (arXiv 2604.12434)."""
