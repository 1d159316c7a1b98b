"""Parts of the user's own: functions and objects named by `file.py:name` or `module:name`.

A part belongs to the identity of a run by its name and a fingerprint, never by where its file lies:
`folder/mine.py:margin@1f2e3d4c5b6a7988`. The fingerprint is a hash of its source text. A task's
rule and a data file have fingerprints of what they give instead (`task.fingerprint`).

Loading a part executes its file. What the user names is loaded; what only a store names is
not, unless the user says that the store is to be trusted (`trusting`).
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from grokscope.errors import SpecError


class Foreign(str):
    """A text that was read from a store: equal to the same text of the user's, but not theirs."""

    __slots__ = ()


def mark_foreign(value: Any) -> Any:
    """JSON of a store with the texts marked that could refer to a part."""
    if isinstance(value, str):
        return Foreign(value) if ":" in value else value
    if isinstance(value, dict):
        return {name: mark_foreign(inner) for name, inner in value.items()}
    return [mark_foreign(inner) for inner in value] if isinstance(value, list) else value


_trust: ContextVar[bool] = ContextVar("trust", default=False)
_named: set[str] = set()  # references that the user has given in this process


@contextlib.contextmanager
def trusting(trust: bool = True) -> Iterator[None]:
    """Within, parts that only a store names are loaded as well: their code is executed."""
    token = _trust.set(trust or _trust.get())
    try:
        yield
    finally:
        _trust.reset(token)


def load(reference: str, what: str) -> Any:
    """The object behind a reference; `what` names it in errors: "the rule". A fingerprint that does
    not fit is refused, before the file is executed: it would be another run under the same name."""
    bare, _, fingerprint = reference.partition("@")
    place, _, name = bare.rpartition(":")
    if not isinstance(reference, Foreign):
        _named.add(bare)
    elif bare not in _named and not _trust.get():
        raise SpecError(
            f"A run of the store names {what} {bare}, and loading it would execute that file. If "
            "you trust the store, add --trust (in Python trust=True, or `with parts.trusting():`)."
        )
    try:
        if place.endswith(".py"):
            file = Path(place).expanduser().resolve()
            if fingerprint and _fingerprint_in(file, name) not in (None, fingerprint):
                raise _changed(what, bare, fingerprint)
            module = _load_file(place)
        else:
            module = importlib.import_module(place)
    except SpecError:
        raise
    except Exception as error:  # it is the user's code: anything may happen
        raise SpecError(f"Cannot load {what} {bare}: {error}.") from error
    part = getattr(module, name, None)
    if part is None:
        raise SpecError(f"{place} has no function {name}.")
    if fingerprint and fingerprint_of(part) != fingerprint:
        raise _changed(what, bare, fingerprint)
    return part


def _changed(what: str, bare: str, fingerprint: str) -> SpecError:
    return SpecError(
        f"The source of {what} {bare} has changed since this run was named; leave out "
        f"@{fingerprint} to make it a new run."
    )


def _fingerprint_in(file: Path, name: str) -> str | None:
    """The fingerprint of a function or class by its file's text alone; None if it is defined in
    some other way."""
    text = file.read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            block = inspect.getblock(text.splitlines(keepends=True)[first - 1 :])
            return _hash("".join(block))
    return None


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
    reference = f"{file if file and Path(file).exists() else part.__module__}:{name}"
    _named.add(reference)
    return reference


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
    return _hash(source)


def _hash(source: str) -> str:
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
