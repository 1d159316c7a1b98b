"""Theory meets runs: every statement of the paper evaluated on trained weights."""

from grokscope.certificates.checks import Certificate, certify, inapplicable, summarise

__all__ = ["Certificate", "certify", "inapplicable", "summarise"]
