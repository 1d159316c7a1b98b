"""Trains runs as compiled programs, in chunks, resumably. Knows nothing of what is learned."""

from grokscope.engine.events import Event, Sink
from grokscope.engine.executors import Executor, InProcess, LocalProcesses, Ray, Slurm
from grokscope.engine.extending import extend_spec, go_on
from grokscope.engine.forking import fork_spec
from grokscope.engine.orders import Order
from grokscope.engine.planning import pin_spec, train
