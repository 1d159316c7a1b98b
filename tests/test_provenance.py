"""What is written down about where a run was made."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

from grokscope.store import provenance


def test_the_commit_is_found_without_touching_the_checkout(tmp_path, monkeypatch):
    """A lock of git's that outlives us would keep the user's own git from working."""

    def git(*words):
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        command = ["git", "-C", str(tmp_path), *name, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    file = tmp_path / "__init__.py"
    monkeypatch.setattr(provenance, "grokscope", SimpleNamespace(__file__=str(file)))
    assert provenance.find_commit() is None
    git("init", "-q")
    file.write_text("1\n")
    git("add", ".")
    git("commit", "-qm", "first")
    os.utime(file, (1, 1))  # git would like to note that it is still the same
    before = (tmp_path / ".git" / "index").read_bytes()
    assert provenance.find_commit() == git("rev-parse", "--short", "HEAD")
    assert (tmp_path / ".git" / "index").read_bytes() == before
    file.write_text("2\n")
    assert provenance.find_commit().endswith("+")
    assert (tmp_path / ".git" / "index").read_bytes() == before
