"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(path: Path, data: bytes, durable: bool = False) -> None:
    """Write beside, then rename: readers see the old file or the new one.

    `durable` waits until the disk has it, for files that others are told to trust."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
