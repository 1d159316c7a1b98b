"""Dataclasses as specifications: reading them from dictionaries, checking them, comparing them.

A field states its bounds and its users where it is declared:

    width: int = number(64, least=1)
    bits: int = number(20, only=("parity", "parity_stream"))

Every refusal is a sentence: what was given, what is allowed, what to do.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin

from grokscope.errors import SpecError, suggest
from grokscope.parts import refer

Function = TypeVar("Function", bound=Callable[..., Any])


def number(default: Any, **limits: Any) -> Any:
    """A field with limits: `least` or `above`, `most` or `below`; `run`: it names one; and `only`:
    the kinds of its class that use it. For the others it must keep its default."""
    return dataclasses.field(default=default, metadata=limits)


def remembered(function: Function) -> Function:
    """`functools.cache` with the type of the function: for mypy classes are not hashable."""
    return cache(function)  # type: ignore[return-value]


def require(condition: bool, sentence: str) -> None:
    if not condition:
        raise SpecError(sentence)


@remembered
def field_types(cls: Any) -> dict[str, Any]:
    """Type of each field by name."""
    hints = typing.get_type_hints(cls)
    return {item.name: hints[item.name] for item in dataclasses.fields(cls)}


@remembered
def default_of(cls: Any) -> Any:
    """The section with every field at its default, made and checked once."""
    return cls()


@remembered  # every spec that is read asks some hundred times
def is_section(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


# Reading


def build(cls: type, data: Mapping[str, Any], base: Any, where: str = "") -> Any:
    """`base` with the fields that nested dictionaries (TOML, JSON) name."""
    hints = field_types(cls)
    if not isinstance(data, Mapping):
        raise SpecError(f"{where.rstrip('.')} must be a table of fields, not {show(data)}.")
    changes = {}
    for given, value in data.items():
        name = str(given).replace("-", "_")
        if name not in hints:
            raise SpecError(f"Unknown field {where + str(given)}.{suggest(name, hints)}")
        if is_section(hints[name]):
            value = build(hints[name], value, getattr(base, name), f"{where}{name}.")
        changes[name] = value
    return dataclasses.replace(base, **changes)


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names to nested dictionaries; a dataclass value replaces a whole section."""
    result: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = result
        for part in path:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise SpecError(f"{name} lies within {part}, which is given as a whole as well.")
        inner[last] = to_dict(value) if dataclasses.is_dataclass(value) else value
    return result


def plain_numbers(value: Any, hint: Any) -> Any:
    """Numbers as they are hashed, so that 1, 1.0 and NumPy's are the same run: whole numbers become
    floats where the field takes any number. Lists become tuples, functions their references."""
    if type(value) in (str, float):  # as most are: every spec passes through here
        return value
    if is_section(hint):
        if not isinstance(value, hint):
            return value  # refused later
        changes = {}
        for name, inner in field_types(hint).items():
            given = getattr(value, name)
            plain = plain_numbers(given, inner)
            if plain is not given:
                changes[name] = plain
        return dataclasses.replace(value, **changes) if changes else value
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        return tuple(refer(part) if callable(part) else part for part in value)
    if hint is str and callable(value):
        return refer(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    fits = hint is float and type(value) is int and abs(value) < 2**1023
    return float(value) if fits else value


# Writing


def to_dict(spec: Any) -> dict[str, Any]:
    """Every field, for people to read. Like `dataclasses.asdict`, which copies every number and
    takes three times as long."""
    result = {item.name: getattr(spec, item.name) for item in dataclasses.fields(spec)}
    for name, value in result.items():
        if is_section(type(value)):
            result[name] = to_dict(value)
        elif isinstance(value, Mapping):
            result[name] = dict(value)
    return result


def differences(spec: Any, default: Any = None) -> dict[str, Any]:
    """Nested dictionary of the fields that differ from their defaults."""
    default = default_of(type(spec)) if default is None else default
    result: dict[str, Any] = {}
    for item in dataclasses.fields(spec):
        value, standard = getattr(spec, item.name), getattr(default, item.name)
        if is_section(type(value)):
            if inner := differences(value, standard):
                result[item.name] = inner
        elif value != standard:
            result[item.name] = value
    return result


def flatten(data: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Dotted name and value of every leaf."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def idle_fields(section: Any, where: str = "") -> dict[str, str]:
    """Dotted name of every field that has no effect as the section stands, and why."""
    found: dict[str, str] = {}
    for item in dataclasses.fields(section):
        value = getattr(section, item.name)
        if is_section(type(value)):
            found |= idle_fields(value, f"{where}{item.name}.")
        elif "only" in item.metadata and section.kind not in item.metadata["only"]:
            found[where + item.name] = f"{where}kind is {section.kind}"
    own = section.idle() if hasattr(section, "idle") else {}
    return found | {where + name: f"{where}{reason}" for name, reason in own.items()}


# Explaining


@cache
def field_help(cls: type) -> dict[str, str]:
    """The text below each field of a dataclass, as the command line shows it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for before, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[before.target.id] = " ".join(str(after.value.value).split())
    return found


def help_of(cls: Any, where: str = "") -> dict[str, str]:
    """Dotted name of every field that a text explains, and the text."""
    found: dict[str, str] = {}
    for name, hint in field_types(cls).items():
        if is_section(hint):
            found |= help_of(hint, f"{where}{name}.")
        elif text := field_help(cls).get(name):
            found[where + name] = text
    return found


# Checking


def show(value: Any) -> str:
    """A value in a sentence, however long it is."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        text = "a number of thousands of digits"
    except RecursionError:
        text = "something nested too deeply"
    return text if len(text) <= 200 else f"{text[:200]}…"


def check(value: Any, hint: Any, where: str) -> None:
    """Raise a SpecError unless the value fits its type and, for a section, every field fits its
    limits and the section's own `check` yields no sentence about what is wrong."""
    if is_section(hint):
        if not isinstance(value, hint):
            raise SpecError(f"{where} must be a {hint.__name__}, not {show(value)}.")
        hints = field_types(hint)
        for item in dataclasses.fields(value):
            given = getattr(value, item.name)
            standard = item.default
            if type(given) is type(standard) and given == standard and "only" not in item.metadata:
                continue  # as most are, and every run that is read passes through here
            path = f"{where}.{item.name}" if where else item.name
            check(given, hints[item.name], path)
            if item.metadata:
                _check_limits(value, item, given, path, where)
        if hasattr(value, "check"):
            for sentence in value.check() or ():
                raise SpecError(sentence)
    elif get_origin(hint) is Literal:
        if not isinstance(value, str) or value not in get_args(hint):
            allowed = ", ".join(map(str, get_args(hint)))
            raise SpecError(f"{where} is {show(value)}; it must be one of {allowed}.")
    elif get_origin(hint) is tuple:
        if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
            raise SpecError(f"{where} is {show(value)}; it must be a list of texts.")
    elif isinstance(value, bool) or not isinstance(value, hint):
        words = {int: "a whole number", float: "a number", str: "text"}.get(hint, str(hint))
        raise SpecError(f"{where} is {show(value)}; it must be {words}.")
    elif hint is int and abs(value) >= 2**31:
        raise SpecError(f"{where} is {show(value)}; whole numbers must stay below 2^31.")
    elif hint is float and not math.isfinite(value):
        raise SpecError(f"{where} is {show(value)}; it must be a finite number.")


def _check_limits(
    section: Any, item: dataclasses.Field[Any], value: Any, path: str, where: str
) -> None:
    limits = item.metadata
    users = limits.get("only", ())
    if users and section.kind not in users:
        require(
            value == item.default,
            f"{path} is only used by {' and '.join(users)}; {where}.kind is {section.kind}.",
        )
        return
    if "run" in limits:  # a shortened name could come to mean another one
        require(
            not value or (len(value) == 16 and set(value) <= set("0123456789abcdef")),
            f"{path} is {value!r}; give the whole name of the run, 16 hexadecimal digits.",
        )
    if limits.keys() <= {"only", "run"}:
        return
    after, before = "above" in limits, "below" in limits  # are the bounds themselves excluded?
    low = limits.get("above" if after else "least", -math.inf)
    high = limits.get("below" if before else "most", math.inf)
    if (value > low if after else value >= low) and (value < high if before else value <= high):
        return
    if after and before:
        words = f"lie between {low} and {high}, both excluded"
    elif high < math.inf:
        words = f"be in {'(' if after else '['}{low}, {high}{')' if before else ']'}"
    elif after:
        words = "be positive" if low == 0 else f"be above {low}"
    else:
        words = "be 0 or more" if low == 0 else f"be at least {low}"
    raise SpecError(f"{path} is {show(value)}; it must {words}.")
