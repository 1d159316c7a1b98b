"""Runs on disk: a directory per run, named by the hash of its spec."""

from grokscope.store.run import CURVE, Run, Status, as_trained, describe, shorten
from grokscope.store.store import Defect, Store, default_root
