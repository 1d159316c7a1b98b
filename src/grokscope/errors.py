"""Errors a user can act on. Each message is one or two sentences: what was given, what is
allowed, what to do. The command line prints them without a traceback and exits with their code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GrokscopeError(Exception):
    """Base of every error that is the input's or the machine's, not a bug of ours."""

    exit_code = 1


class SpecError(GrokscopeError, ValueError):
    """A specification that cannot be run: unknown field, wrong type, impossible task."""

    exit_code = 2


class StoreError(GrokscopeError):
    """The store cannot be read or written."""

    exit_code = 3


class TrainingError(GrokscopeError):
    """Training ended without every run being finished."""

    exit_code = 4


def suggest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """' Did you mean …?' for the names nearest to `name`, else `otherwise` or ' Known: …'."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return f" Did you mean {' or '.join(near)}?"
    return otherwise or f" Known: {', '.join(known)}."
