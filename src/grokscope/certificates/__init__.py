"""Theory meets runs: every statement of the paper evaluated on trained weights."""

from grokscope.certificates.checks import Certificate, certify, summarise
from grokscope.certificates.observation import inapplicable

__all__ = ["Certificate", "certify", "inapplicable", "summarise"]
