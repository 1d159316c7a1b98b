"""Theory meets runs: every statement of the paper evaluated on trained weights."""

from grokscope.papers.structural_inference.certificates.checks import (
    Certificate,
    certify,
    summarise,
)
from grokscope.papers.structural_inference.certificates.observation import inapplicable

__all__ = ["Certificate", "certify", "inapplicable", "summarise"]
