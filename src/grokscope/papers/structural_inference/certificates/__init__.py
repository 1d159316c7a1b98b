"""Every statement of the paper, evaluated on trained weights."""

from grokscope.papers.structural_inference.certificates.checks import certify, summarise
from grokscope.papers.structural_inference.certificates.observation import inapplicable

__all__ = ["certify", "inapplicable", "summarise"]
