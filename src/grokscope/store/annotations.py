"""What people write about runs: a name, tags, a note. Never part of a run's identity."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from grokscope.errors import SpecError, StoreError
from grokscope.store.files import damaged, disk_sentences, read_json, write_json

NOTES = "notes.json"


class Annotation(NamedTuple):
    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""


def read_annotation(folder: Path) -> Annotation:
    """What is written about the run in this directory; all empty if nothing is."""
    if not (folder / NOTES).exists():
        return Annotation()
    data = read_json(folder / NOTES)
    name, tags, note = data.get("name", ""), data.get("tags", []), data.get("note", "")
    if not isinstance(tags, list) or not all(isinstance(text, str) for text in (name, note, *tags)):
        raise damaged(folder / NOTES, "name and note must be texts, tags a list of texts")
    return Annotation(name, tuple(tags), note)


def peek_annotation(folder: Path) -> Annotation:
    """The same; empty if it cannot be read, which must not keep us from the other runs. `verify`
    tells of it."""
    with contextlib.suppress(StoreError):
        return read_annotation(folder)
    return Annotation()


def write_annotation(
    folder: Path, name: str | None, note: str | None, add: Iterable[str], drop: Iterable[str]
) -> Annotation:
    """Change what is given and keep the rest."""
    if name and set(name) <= set("0123456789abcdef"):
        raise SpecError(f"{name!r} could be the first digits of a run; take another name.")
    add = list(add)
    for tag in add:
        if tag.split() != [tag] or "," in tag:
            raise SpecError(f"A tag is one word without commas, not {tag!r}.")
    old = read_annotation(folder)
    tags = dict.fromkeys([*old.tags, *add])
    new = Annotation(
        old.name if name is None else name,
        tuple(tag for tag in tags if tag not in set(drop)),
        old.note if note is None else note,
    )
    with disk_sentences(folder.parent):
        write_json(folder / NOTES, new._asdict(), durable=True, sealed=True)
    return new
