"""Specs from TOML files and back, and sweeps over their fields."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_origin

from grokscope.errors import SpecError
from grokscope.spec.fields import flatten
from grokscope.spec.recipes import find_recipe
from grokscope.spec.run import KINDS, RunSpec, Spec, field_type, from_dict, read_spec

AnySpec = TypeVar("AnySpec", bound=Spec)


def to_toml(spec: Spec) -> str:
    """The fields that differ from their defaults, as a TOML file that `from_toml` takes back."""
    tables: dict[str, list[str]] = {}
    kind = {} if isinstance(spec, RunSpec) else {"kind": spec.kind_name}
    for name, value in (kind | spec.changed()).items():
        table, _, last = name.rpartition(".")
        tables.setdefault(table, []).append(f"{last} = {json.dumps(value)}")
    # Keys without a table must come first in TOML.
    order = sorted(tables.items(), key=lambda item: item[0] != "")
    return "\n".join("\n".join([f"[{t}]"] * bool(t) + lines) + "\n" for t, lines in order)


def from_toml(path: str | Path) -> tuple[Spec, dict[str, list[Any]]]:
    """The spec of a TOML file, of the `kind` it names, and its optional [sweep] table (dotted name
    = list of values)."""
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise SpecError(f"Cannot read {path}: it is not a file.")
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SpecError(f"Cannot read {path}: {error.strerror}.") from error
    except RecursionError as error:
        raise SpecError(f"{path} is nested too deeply for a spec.") from error
    except ValueError as error:  # TOML, UTF-8, or a number of thousands of digits
        raise SpecError(f"{path} is not valid TOML: {error}.") from error
    table = data.pop("sweep", {})
    if not isinstance(table, dict):
        raise SpecError(f"{path}: sweep must be a table of fields and their values, not {table!r}.")
    over = dict(flatten(table))
    for name, values in over.items():
        if not isinstance(values, list) or not values:
            raise SpecError(f"{path}: sweep over {name} needs a list of values, not {values!r}.")
    return _read_toml(data, path), over


def _read_toml(data: dict[str, Any], path: Path) -> Spec:
    if "recipe" in data:
        base = find_recipe(str(data.pop("recipe")))
        if (kind := data.pop("kind", base.kind_name)) != base.kind_name:
            raise SpecError(
                f"{path} names a recipe and the kind {kind!r}; every recipe is of the kind "
                f"{base.kind_name}."
            )
        return from_dict(data, base)
    kind = str(data.get("kind", RunSpec.kind_name))
    if kind in KINDS and not KINDS[kind].problem:
        raise SpecError(
            f"{path} is of the kind {kind}: a model of your own, which your own loop trains "
            "(docs/your-model.md)."
        )
    return read_spec({**data, "kind": kind})


MOST_RUNS = 100_000


def check_sweep(count: int) -> None:
    if count > MOST_RUNS:
        raise SpecError(
            f"This sweep has {count:,} runs; at most {MOST_RUNS:,} are possible. Take fewer values."
        )


def load_source(source: str) -> tuple[Spec, dict[str, list[Any]]]:
    """Spec and sweep of a recipe or of a TOML file."""
    if source.endswith(".toml") or os.sep in source:
        return from_toml(source)
    return find_recipe(source), {}


def sweep(base: AnySpec, over: Mapping[str, Iterable[Any]] | None = None) -> list[AnySpec]:
    """Every combination: `sweep(spec, {"seed": range(5), "prior.strength": [0, 0.1, 1]})`."""
    lists: dict[str, list[Any]] = {}
    for name, given in (over or {}).items():
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise SpecError(f"The sweep over {name} needs a list of values, not {given!r}.")
        lists[name] = list(given)
    for name, values in lists.items():
        if not values:
            raise SpecError(f"The sweep over {name} has no values.")
    check_sweep(math.prod(map(len, lists.values())))
    combinations = itertools.product(*lists.values())
    specs = [base.replace(**dict(zip(lists, values, strict=True))) for values in combinations]
    return list({spec.id: spec for spec in specs}.values())


def parse_sweep(
    items: Iterable[str], what: str, kind: type[Spec] = RunSpec
) -> dict[str, list[Any]]:
    """`seed=0..4` and `prior.strength=0.1,1` as lists of values; `what` takes them."""
    over: dict[str, list[Any]] = {}
    for item in items:
        name, _, text = item.partition("=")
        name = name.replace("-", "_")
        if not text:
            raise SpecError(f"{what} takes name=value,value or name=first..last, not {item!r}.")
        if span := re.fullmatch(r"(\d{1,10})\.\.(\d{1,10})", text):
            values = range(int(span[1]), int(span[2]) + 1)
            check_sweep(len(values))
            over[name] = list(values)
        else:
            over[name] = [parse_value(part, field_type(name, kind)) for part in text.split(",")]
    return over


def parse_value(text: str, hint: Any) -> Any:
    """Text as its field takes it: a number, or several texts. What does not fit is refused by the
    spec."""
    for number in (int, float) if hint in (int, float) else ():
        with contextlib.suppress(ValueError):
            return number(text)
    return tuple(text.split()) if get_origin(hint) is tuple else text
