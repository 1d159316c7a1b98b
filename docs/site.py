"""Builds the documentation as a site that needs no network: `make docs`.

The pages in docs/, the notebooks with their outputs, and the files beside the README are gathered
in one directory, from which Zensical builds; a broken link is an error. The pages can be opened
from the disk; their search needs a server, such as `python -m http.server`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat

ROOT = Path(__file__).parent.parent


def gather(place: Path) -> None:
    """All sources of the site in one directory."""
    shutil.copytree(ROOT / "docs", place, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text().replace("](docs/", "](")
        (place / name.lower()).write_text(text)
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        folder = place / "notebooks"
        folder.mkdir(exist_ok=True)
        write_notebook(path, folder)


def write_notebook(path: Path, folder: Path) -> None:
    """A notebook as Markdown, its pictures as files."""
    parts: list[str] = []
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for place, output in enumerate(cell.outputs):
            data = output.get("data", {})
            if "image/svg+xml" in data:
                name = f"{path.stem}-{number}-{place}.svg"
                (folder / name).write_text(data["image/svg+xml"])
                parts.append(f"![A chart]({name})")
            elif "text/html" in data:
                html = data["text/html"]
                parts.append("" if "<pre" in html else re.sub(r"\n\s*", " ", html))
            else:
                text = output.get("text") or data.get("text/plain", "")
                parts.append(f"```text\n{text.rstrip()}\n```")
    (folder / f"{path.stem}.md").write_text("\n\n".join(parts) + "\n")


def main(out: Path) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        gather(place / "docs")
        settings = (ROOT / "mkdocs.yml").read_text()
        (place / "mkdocs.yml").write_text(settings.replace("[src]", f"[{ROOT / 'src'}]"))
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        if done.returncode:
            print(done.stdout + done.stderr, file=sys.stderr)
            return done.returncode
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(place / "site", out)
    print(out / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()))
