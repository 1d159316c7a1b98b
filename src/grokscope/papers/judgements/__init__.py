"""The tests that claims choose from. Each states its statistic and its rule before the runs; the
rule itself (interval against the smallest effect of interest) is in `grokscope.verdicts`."""

from grokscope.papers.judgements.laws import InverseLaw, Trend, state_crossing
from grokscope.papers.judgements.numbers import Everywhere, Higher, Level, Separation
from grokscope.papers.judgements.times import Faster, Fastest, GainKept, Share

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
