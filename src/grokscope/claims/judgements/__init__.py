"""The tests that claims choose from. Each states its statistic and its rule before the runs; the
rule itself (interval against the smallest effect of interest) is in `grokscope.claims.verdicts`."""

from grokscope.claims.judgements.laws import InverseLaw, Trend, state_crossing
from grokscope.claims.judgements.numbers import Everywhere, Higher, Level, Separation
from grokscope.claims.judgements.times import Faster, Fastest, GainKept, Share

__all__ = [
    "Everywhere",
    "Faster",
    "Fastest",
    "GainKept",
    "Higher",
    "InverseLaw",
    "Level",
    "Separation",
    "Share",
    "Trend",
    "state_crossing",
]
