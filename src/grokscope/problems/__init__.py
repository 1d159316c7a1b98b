"""Learning problems: what is minimised, what is measured, what counts as an event.

A problem is one file. It has a spec class in `grokscope.spec.KINDS` whose `problem` names a `Kind`:
how to build the problem from a spec, and how long training it takes.
"""

from grokscope.problems.base import Kind, Problem, find_kind
