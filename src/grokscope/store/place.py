"""Where runs are kept if nobody says."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from grokscope.errors import StoreError

CONFIG = "grokscope.toml"


def default_root() -> Path:
    """$GROKSCOPE_STORE; else what `store = "..."` says in the nearest grokscope.toml, here or in a
    directory above, or in ~/.config/grokscope; else `runs` in the current directory."""
    chosen = os.environ.get("GROKSCOPE_STORE")
    if chosen is not None:
        if not chosen.strip():
            raise StoreError("GROKSCOPE_STORE is empty; name a directory, or unset it for ./runs.")
        return Path(chosen)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "grokscope"
    here = Path.cwd()
    for folder in (here, *here.parents, home):
        if (folder / CONFIG).is_file():
            return _read(folder / CONFIG)
    return Path("runs")


def _read(path: Path) -> Path:
    """The store that a configuration names; relative to the file, since it is found from anywhere
    below."""
    try:
        store = tomllib.loads(path.read_text(encoding="utf-8")).get("store", "runs")
        return path.parent / Path(store).expanduser()
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise StoreError(f"Cannot read the place of the store from {path}: {error}.") from error
