"""Runs on disk: a directory per run, named by the hash of its spec."""

from grokscope.store.feed import Changes, Moment
from grokscope.store.place import default_root
from grokscope.store.run import CURVE, Run, Status, as_trained, describe, shorten
from grokscope.store.store import Defect, Store
