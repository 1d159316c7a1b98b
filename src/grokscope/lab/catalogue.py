"""The list of runs: one line each, in arms, filtered by conditions as in `grokscope runs --where`.

Lines are made from the raw files and kept in memory: checking ten thousand specs again for a list
would take many seconds. A run is read in full, and checked, when someone looks at it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from grokscope.errors import SpecError, first_line, suggest
from grokscope.spec import KINDS, flatten
from grokscope.store import Store, shorten
from grokscope.store.feed import changed_at
from grokscope.store.files import read_json
from grokscope.store.index import ARM, WRITTEN
from grokscope.store.run import OUTCOME, SPEC

if TYPE_CHECKING:
    import polars as pl

SEEDS = ("seed", "task.seed")
UNTOLD = ("kind", "task.fingerprint", *SEEDS)
EVENTS = ("memorised", "grokked")
# All that a condition may say besides columns, numbers and texts. SQL can read files
# (`select ... from read_csv(...)`), so whatever is not known to be harmless is refused.
HARMLESS = (
    "and or not is null in between like ilike true false abs round floor ceil sqrt ln log10 lower "
    "upper length starts_with ends_with coalesce least greatest case when then else end exp power "
    "pow log log2 sign mod substr left right concat nullif cast as int bigint float double varchar"
)
# A text or a column, whichever begins first: a column may be called "it's", a text may hold a ".
QUOTED = re.compile(r"'(?:[^']|'')*'" + r'|"([^"]*)"')
RUN = re.compile(r"[0-9a-f]{16}")
NUMBER = re.compile(r"(?<!\w)\d+(\.\d*)?(e[+-]?\d+)?", re.IGNORECASE)
MOST_CONDITION = 500  # characters
MANY = 500  # runs that are worth a look into the index


@dataclass(frozen=True)
class Line:
    """One run of the list."""

    run: str
    arm: str
    seed: int
    status: str
    kind: str
    epochs: int | None
    budget: int
    times: Mapping[str, int | None]
    final: Mapping[str, float | None]
    fields: Mapping[str, Any]
    told: tuple[str, ...]  # fields that differ from their defaults, without seeds
    changed: float  # when its curve or outcome was written

    def to_json(self, label: str) -> dict[str, Any]:
        plain = ("run", "arm", "seed", "status", "kind", "epochs", "budget")
        return {
            **{name: getattr(self, name) for name in plain},
            "label": label,
            **self.times,
            "test": self.final.get("test_accuracy"),
            "changed": round(self.changed, 1),
        }


class Catalogue:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._lines: dict[str, Line] = {}
        self._table: pl.DataFrame | None = None
        self._lock = threading.Lock()

    def renew(self, changed: Set[str], gone: Iterable[str] = ()) -> None:
        """Read these runs again; what cannot be read is left out (`grokscope verify` names it)."""
        with self._lock:
            for name in gone:
                self._lines.pop(name, None)
            known = self._recall(changed) if len(changed) >= MANY else {}
            self._lines |= known
            for name in changed - known.keys():
                try:
                    self._lines[name] = read_line(self.store, name)
                except Exception:  # whatever a file may hold
                    self._lines.pop(name, None)
            self._table = None
        if len(changed) - len(known) >= MANY:  # the next lab will find them in the index
            threading.Thread(target=self.table, daemon=True).start()

    def _recall(self, names: Iterable[str]) -> dict[str, Line]:
        """Lines of ended runs that the store's index knows: one run of each arm is read."""
        found: dict[str, Line] = {}
        for _, members in self.store.recall(names).group_by(ARM):
            ended = members.filter(members["status"] != "partial")
            if not len(ended):
                continue
            first = read_line(self.store, ended["run"][0])
            asked = ("run", "seed", "status", "epochs", WRITTEN, *first.times, *first.final)
            for row in ended.select(n for n in asked if n in ended.columns).iter_rows(named=True):
                found[row["run"]] = replace(
                    first,
                    run=row["run"],
                    seed=row.get("seed", first.seed),
                    status=row["status"],
                    epochs=row["epochs"],
                    times={name: row.get(name) for name in first.times},
                    final={name: _number(row.get(name)) for name in first.final},
                    changed=row[WRITTEN] / 1e9,
                )
        return found

    def lines(self, condition: str = "") -> list[Line]:
        if not condition.strip():
            return list(self._lines.values())
        import polars as pl

        table = self.table()
        check_condition(condition, table.columns)
        try:
            found = table.filter(pl.sql_expr(condition))["run"]
        except pl.exceptions.PolarsError as error:
            raise SpecError(f"The filter failed: {first_line(error)}") from error
        return [self._lines[name] for name in found if name in self._lines]

    def find(self, runs: Iterable[str]) -> list[Line]:
        return [self._lines[run] for run in runs if run in self._lines]

    def arm_of(self, run: str) -> list[Line]:
        """The runs that share everything with this one but the seed."""
        line = self._lines.get(run)
        return [other for other in [*self._lines.values()] if line and other.arm == line.arm]

    def table(self) -> pl.DataFrame:
        """The columns that `grokscope runs --where` knows."""
        with self._lock:
            if self._table is None:
                self._table = self.store.table()
            return self._table


def check_condition(text: str, columns: Iterable[str]) -> None:
    """Refuse what is not a plain condition on the columns."""
    if len(text) > MOST_CONDITION:
        raise SpecError(f"A filter has at most {MOST_CONDITION} characters, not {len(text)}.")
    known = {name.lower() for name in columns}

    def check_quoted(found: re.Match[str]) -> str:
        column = found[1]
        if column is not None and column.lower() not in known:
            raise SpecError(f"No run has {column!r}.{suggest(column, known)}")
        return " "

    bare = QUOTED.sub(check_quoted, text)
    if odd := re.search(r"[^\w\s()=<>!+\-*/%.,]|--|/\*", bare):
        raise SpecError(f"A filter cannot contain {odd[0]!r}; write `prior_strength > 1`, say.")
    for word in re.findall(r"[A-Za-z_]\w*", NUMBER.sub(" ", bare)):
        if word.lower() not in known | set(HARMLESS.split()):
            raise SpecError(f"No run has {word!r}.{suggest(word, known)}")


def read_line(store: Store, name: str) -> Line:
    folder = store.root / name
    data = read_json(folder / SPEC)
    outcome = read_json(folder / OUTCOME) if (folder / OUTCOME).exists() else {}
    kind = str(data.get("kind", "routing"))
    if kind not in KINDS:
        raise SpecError(f"The run {name} is of the unknown kind {kind!r}.")
    standard = defaults_of(kind)
    given = {n: tuple(v) if isinstance(v, list) else v for n, v in flatten(data)}
    fields = {**standard, **given}
    shared = {n: v for n, v in fields.items() if n not in SEEDS}
    told = [n for n, v in shared.items() if n not in UNTOLD and v != standard.get(n)]
    if not fields.get("prior.strength", 1) or fields.get("prior.kind") == "none":
        told = [n for n in told if not n.startswith("prior.")]  # no prior, whatever it says
        shared = {n: v for n, v in shared.items() if not n.startswith("prior.")}
    key = json.dumps(shared, sort_keys=True, default=str)
    events = {n: e for n, e in outcome.items() if isinstance(e, Mapping) and "threshold" in e}
    return Line(
        run=name,
        arm=hashlib.sha256(key.encode()).hexdigest()[:12],
        seed=int(fields.get("seed", 0)),
        status=str(outcome.get("status", "partial")),
        kind=kind,
        epochs=_number(outcome.get("epochs")),
        budget=int(fields.get("training.epochs", 0)),
        times={**dict.fromkeys(EVENTS), **{n: _number(e.get("epoch")) for n, e in events.items()}},
        final={n: _number(value) for n, value in outcome.get("final", {}).items()},
        fields=fields,
        told=tuple(told),
        changed=changed_at(folder),
    )


def _number(value: Any) -> Any:
    """JSON says 1e999 for infinity, and a damaged file may say anything."""
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def label_arms(lines: Iterable[Line]) -> dict[str, str]:
    """What sets each arm apart from the others of a list; a single one, from the defaults."""
    arms = {line.arm: line for line in lines}
    shared: dict[str, dict[str, Counter[str]]] = {}  # by kind and field: how many arms have a value
    for kind in {line.kind for line in arms.values()}:
        alike = [line for line in arms.values() if line.kind == kind]
        told = {name for line in alike for name in line.told}
        shared[kind] = {n: Counter(str(line.fields.get(n)) for line in alike) for n in told}
    labels = {}
    for arm, line in arms.items():
        varying = {name: values for name, values in shared[line.kind].items() if len(values) > 1}
        names = [name for name in line.fields if name in varying]
        if len(varying) > 4:  # what is not as usual, and the rarest first: a list shows three lines
            names = [name for name in names if name in line.told]
            names.sort(key=lambda name: varying[name][str(line.fields[name])])
        words = [_phrase(n, line.fields[n], varying) for n in names or line.told]
        if line.kind == "observed":  # a run of the user's own model is called as the user calls it
            own = [(n.partition(".")[2], v) for n, v in line.fields.items() if "settings." in n]
            words = [str(line.fields.get("name", "unnamed"))]
            words += [f"{name} {shorten(value)}" for name, value in own]
        labels[arm] = ", ".join(filter(None, words)) or "defaults"
    return labels


@cache
def defaults_of(kind: str) -> dict[str, Any]:
    try:
        return dict(flatten(KINDS[kind]().to_dict()))
    except TypeError:  # a run that was watched has no default name
        return {}


def _phrase(name: str, value: Any, among: Iterable[str]) -> str:
    """A field and its value in few words: "strength 3", "no prior", "oracle prior"."""
    section, _, last = name.rpartition(".")
    if last == "kind":
        return f"no {section}" if value == "none" else f"{value} {section}"
    if RUN.fullmatch(str(value)):
        value = value[:8]
    if name == "fork.parent":
        return f"fork of {value}" if value else "no fork"
    if name == "fork.epoch":
        return f"from {value} on" if value else ""
    clear = sum(other.rpartition(".")[2] == last for other in among) <= 1
    return f"{(last if clear else name).replace('_', ' ')} {shorten(value)}"
