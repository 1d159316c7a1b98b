"""Every field of a spec as a form, made from the spec classes; and specs made of what was typed.

Types, defaults and help come from where the command line has them, and what is refused is
refused in the same sentences.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from grokscope.engine.forking import check_fork, is_fork
from grokscope.engine.planning import estimate_seconds, pin_spec
from grokscope.errors import SpecError, suggest
from grokscope.spec import KINDS, RECIPES, Spec, field_type, find_recipe, flatten, sweep
from grokscope.spec.fields import default_of, field_help, field_types, is_section
from grokscope.spec.reading import parse_sweep, parse_value
from grokscope.store import Store

MOST_RUNS = 200  # of one order
MOST_TEXT = 2000  # characters of one field
MOST_DAYS = 30.0
SNAPSHOTS = 40  # what the form proposes, so that there is something to scrub through


def describe_form() -> dict[str, Any]:
    """Kinds of runs with all their fields, and where to begin: the recipes, and for a kind that has
    none its defaults."""
    starts: dict[str, tuple[str, Spec]] = dict(RECIPES)
    for name in trainable_kinds():
        if name not in {spec.kind_name for _, spec in RECIPES.values()}:
            what = (KINDS[name].__doc__ or "").partition(".")[0]
            starts[name] = (what, default_of(KINDS[name]))
    recipes = {}
    for name, (what, spec) in starts.items():
        values = {n: _shown(v) for n, v in flatten(spec.to_dict()) if n != "kind"}
        values["training.snapshots"] = SNAPSHOTS
        recipes[name] = {"what": what, "kind": spec.kind_name, "values": values}
    kinds = {name: _fields_of(KINDS[name]) for name in trainable_kinds()}
    return {"kinds": kinds, "recipes": recipes}


def trainable_kinds() -> list[str]:
    return [name for name, kind in KINDS.items() if kind.problem]


def _fields_of(cls: Any, prefix: str = "") -> list[dict[str, Any]]:
    """Leaves of a spec class by their dotted names, sections in the order of the class."""
    found = []
    for item in dataclasses.fields(cls):
        hint = field_types(cls)[item.name]
        name = prefix + item.name
        if is_section(hint):
            found += _fields_of(hint, f"{name}.")
            continue
        choices = list(get_args(hint)) if get_origin(hint) is Literal else []
        found.append(
            {
                "name": name,
                "section": prefix.rstrip(".") or "run",
                "type": "choice" if choices else "number" if hint in (int, float) else "text",
                "choices": choices,
                "default": _shown(getattr(default_of(cls), item.name)),
                "help": field_help(cls).get(item.name, ""),
                "only": list(item.metadata.get("only", ())),
            }
        )
    return found


def _shown(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


# From what was typed to specs


@dataclasses.dataclass(frozen=True)
class Wish:
    """What the page asks for: a starting point, fields typed over it, and a sweep."""

    kind: str = "routing"
    recipe: str = ""
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    over: str = ""

    @staticmethod
    def read(data: Any) -> Wish:
        if not isinstance(data, dict):
            raise SpecError("An order is an object with the fields that are to be changed.")
        names = {item.name for item in dataclasses.fields(Wish)}
        for name in data:
            if name not in names:
                raise SpecError(f"Unknown part of an order: {name!r}.{suggest(str(name), names)}")
        wish = Wish(**data)
        texts = (wish.kind, wish.recipe, wish.over)
        if not all(isinstance(text, str) for text in texts) or not isinstance(wish.changes, dict):
            raise SpecError("An order has texts for kind, recipe and over, and a table of changes.")
        for name, value in wish.changes.items():
            if not isinstance(value, str | int | float) or len(str(value)) > MOST_TEXT:
                raise SpecError(f"{name} must be a number or a text of {MOST_TEXT} characters.")
        return wish


def make_specs(wish: Wish, allowed: Sequence[Path], store: Store) -> list[Spec]:
    """The specs of a wish, checked, with fingerprints of the user's own parts."""
    if wish.kind not in trainable_kinds():
        raise SpecError(
            f"There is no kind of run {wish.kind!r}.{suggest(wish.kind, trainable_kinds())}"
        )
    base: Spec = find_recipe(wish.recipe) if wish.recipe else default_of(KINDS[wish.kind])
    if len(wish.over) > MOST_TEXT:
        raise SpecError(f"A sweep is described in at most {MOST_TEXT} characters.")
    over = parse_sweep(wish.over.split(), "A sweep", type(base))
    total = math.prod(map(len, over.values()))
    if total > MOST_RUNS:
        raise SpecError(f"This sweep has {total:,} runs; the page starts at most {MOST_RUNS}.")
    changes = {
        name: parse_value(value, field_type(name, type(base))) if isinstance(value, str) else value
        for name, value in wish.changes.items()
    }
    specs = sweep(base.replace(**changes), over)
    for spec in specs:
        check_parts(spec, allowed, store)
        if is_fork(spec):
            check_fork(spec, store.get(spec.fork.parent))  # type: ignore[attr-defined]
    specs = [pin_spec(spec) for spec in specs]
    days = sum(map(estimate_seconds, specs)) / 86_400
    if not days < MOST_DAYS:
        raise SpecError(
            f"This would train for about {days:,.0f} days on one core; the page starts at most "
            f"{MOST_DAYS:.0f}. Make it smaller, or use `grokscope train`."
        )
    return specs


def check_parts(spec: Spec, allowed: Sequence[Path], store: Store) -> None:
    """Refuse parts and files of the user's own that were not named on the command line: a page in
    a browser must not decide which code runs here. Teachers and masks bring specs of their own."""
    waiting, seen = [spec], set()
    while waiting:
        one = waiting.pop()
        seen.add(one.id)
        for name, place, code in _named_files(one):
            if code and not place.endswith(".py"):  # a module: it could lie anywhere
                raise SpecError(
                    f"{name} names {place!r}. The lab only uses functions of .py files that were "
                    "named when it was started, with --allow."
                )
            if Path(place).expanduser().resolve() not in allowed:
                raise SpecError(
                    f"{name} names {place!r}. The lab only uses files of your own that were named "
                    f"when it was started: grokscope lab --allow {place}"
                )
        for needed in one.needs():
            if needed not in seen:
                waiting.append(store.get(needed).spec)


def _named_files(spec: Spec) -> Iterable[tuple[str, str, bool]]:
    """Fields that name code or data, by what they look like, whatever the kind of run; the file,
    and whether it is code."""
    for name, value in flatten(spec.to_dict()):
        for text in value if isinstance(value, list | tuple) else (value,):
            if not isinstance(text, str):
                continue
            if ":" in text:
                yield name, text.partition("@")[0].rpartition(":")[0], True
            elif "/" in text or "\\" in text or text.endswith((".csv", ".parquet")):
                yield name, text, False
