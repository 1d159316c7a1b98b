"""See why, and when, a transformer groks.

import grokscope as gs

spec = gs.RunSpec(task=gs.TaskSpec(alphabet=8))
runs = gs.train(gs.sweep(spec, {"prior.kind": ["none", "oracle"], "seed": range(3)}))

Names are imported when they are first used, so that importing the package stays cheap; the stub
`__init__.pyi` lists them.
"""

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
