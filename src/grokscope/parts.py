"""Parts of the user's own: functions and objects named by `file.py:name` or `module:name`.

A part belongs to the identity of a run by its name and a fingerprint, never by where its file lies:
`folder/mine.py:margin@1f2e3d4c5b6a7988`. The fingerprint is a hash of its source text. A task's
rule and a data file have fingerprints of what they give instead (`task.fingerprint`).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from grokscope.errors import SpecError


def load(reference: str, what: str) -> Any:
    """The object behind a reference; `what` names it in errors: "the rule". A fingerprint that no
    longer fits is refused: it would be another run under the same name."""
    bare, _, fingerprint = reference.partition("@")
    place, _, name = bare.rpartition(":")
    try:
        module = _load_file(place) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:  # it is the user's code: anything may happen
        raise SpecError(f"Cannot load {what} {bare}: {error}.") from error
    part = getattr(module, name, None)
    if part is None:
        raise SpecError(f"{place} has no function {name}.")
    if fingerprint and fingerprint_of(part) != fingerprint:
        raise SpecError(
            f"The source of {what} {bare} has changed since this run was named; leave out "
            f"@{fingerprint} to make it a new run."
        )
    return part


def load_function(reference: str, what: str) -> Callable[..., Any]:
    part = load(reference, what)
    if not callable(part):
        raise SpecError(f"{reference.partition('@')[0]} is not a function.")
    return part


def refer(part: Any) -> str:
    """`file.py:name` of a function or class, for a spec. A reference stays as it is."""
    if isinstance(part, str):
        return part
    name = getattr(part, "__name__", "")
    if not name or "<" in name:
        raise SpecError(f"{part!r} has no name to refer to; define it with `def` or `class`.")
    try:
        file = inspect.getsourcefile(part)
    except TypeError:
        file = None
    return f"{file if file and Path(file).exists() else part.__module__}:{name}"


def pin(reference: str, what: str) -> str:
    """The reference with its fingerprint."""
    if not reference:
        return reference
    part = load(reference, what)
    return f"{reference.partition('@')[0]}@{fingerprint_of(part)}"


def fingerprint_of(part: Any) -> str:
    """16 hexadecimal digits of the SHA-256 of its source text, indentation left out."""
    try:
        source = inspect.getsource(part)
    except (OSError, TypeError) as error:
        raise SpecError(
            f"The source of {getattr(part, '__name__', part)!r} cannot be read; define it in a "
            "file or a notebook cell."
        ) from error
    return hashlib.sha256(textwrap.dedent(source).encode()).hexdigest()[:16]


def lives_in_main(reference: str) -> bool:
    """Is it part of the script that is running, or of a notebook?"""
    place = reference.partition("@")[0].rpartition(":")[0]
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return place == "__main__" or bool(file and Path(file).resolve() == Path(place).resolve())


def _load_file(place: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if lives_in_main(f"{place}:"):
        return sys.modules["__main__"]  # a script that trains its own part is not run twice
    if not path.exists():
        raise OSError(f"there is no file {place}")
    spec = importlib.util.spec_from_file_location(f"grokscope_part_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # the source of a class is looked up through it
    spec.loader.exec_module(module)
    return module
