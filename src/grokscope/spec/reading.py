"""Specs from TOML files and back, and sweeps over their fields."""

from __future__ import annotations

import itertools
import json
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from grokscope.errors import SpecError
from grokscope.spec.fields import flatten
from grokscope.spec.recipes import find_recipe
from grokscope.spec.run import RunSpec, Spec, from_dict

AnySpec = TypeVar("AnySpec", bound=Spec)


def to_toml(spec: RunSpec) -> str:
    """The fields that differ from their defaults, as a TOML file that `from_toml` takes back."""
    tables: dict[str, list[str]] = {}
    for name, value in spec.changed().items():
        table, _, last = name.rpartition(".")
        tables.setdefault(table, []).append(f"{last} = {json.dumps(value)}")
    # Keys without a table must come first in TOML.
    order = sorted(tables.items(), key=lambda item: item[0] != "")
    return "\n".join("\n".join([f"[{t}]"] * bool(t) + lines) + "\n" for t, lines in order)


def from_toml(path: str | Path) -> tuple[RunSpec, dict[str, list[Any]]]:
    """The spec of a TOML file, and its optional [sweep] table (dotted name = list of values)."""
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
    base = find_recipe(str(data.pop("recipe"))) if "recipe" in data else RunSpec()
    return from_dict(data, base), over


MOST_RUNS = 100_000


def check_sweep(count: int) -> None:
    if count > MOST_RUNS:
        raise SpecError(
            f"This sweep has {count:,} runs; at most {MOST_RUNS:,} are possible. Take fewer values."
        )


def load_source(source: str) -> tuple[RunSpec, dict[str, list[Any]]]:
    """Spec and sweep of a recipe or of a TOML file."""
    if source.endswith(".toml") or os.sep in source:
        return from_toml(source)
    return find_recipe(source), {}


def sweep(base: AnySpec, over: Mapping[str, Iterable[Any]] | None = None) -> list[AnySpec]:
    """Every combination: `sweep(spec, {"seed": range(5), "prior.strength": [0, 0.1, 1]})`."""
    over = {name: list(values) for name, values in (over or {}).items()}
    for name, values in over.items():
        if not values:
            raise SpecError(f"The sweep over {name} has no values.")
    check_sweep(math.prod([len(list(values)) for values in over.values()]))
    combinations = itertools.product(*over.values())
    specs = [base.replace(**dict(zip(over, values, strict=True))) for values in combinations]
    return list({spec.id: spec for spec in specs}.values())
