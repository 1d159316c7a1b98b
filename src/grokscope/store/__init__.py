"""Runs on disk: a directory per run, named by the hash of its spec."""

from grokscope.store.feed import Changes, Moment
from grokscope.store.run import CURVE, Run, Status, describe, shorten
from grokscope.store.store import Defect, Store, default_root
