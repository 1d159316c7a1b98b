"""Power losses on a real file system, by hand and as root:

    python -m hardening.power_loss 28           (in the directory tests)

Makes an ext4 file system in a file, and for each trial trains a run on it, waits up to eight
seconds, and shuts the file system down without flushing its journal (FS_IOC_SHUTDOWN, as xfstests
do): what the disk was not asked to keep is lost, as when the power goes. Then it is mounted again.
A run that was said to have ended must be whole; one in the middle must train to the same end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grokscope as gs
from hardening.faults import Crash, FaultyDisk, under
from hardening.loop import SPEC, assert_sound, train_plainly

SHUTDOWN, WITHOUT_FLUSH = 0x8004587D, 2


class TiredDisk(FaultyDisk):
    """Dies at an operation, and waits for the real disk before."""

    def sync(self, path: Path) -> None:
        if self._due():
            self._fail(path)
        super(FaultyDisk, self).sync(path)


def run(*words: object) -> str:
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout


def lose_power(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
    finally:
        os.close(handle)


def main(trials: int, most_seconds: float) -> int:
    draw, lost = random.Random(19), 0
    with tempfile.TemporaryDirectory() as folder:
        image, place = Path(folder) / "disk", Path(folder) / "mounted"
        place.mkdir()
        with open(image, "wb") as file:
            file.truncate(64 * 2**20)
        run("mkfs.ext4", "-q", image)
        device = run("losetup", "--find", "--show", image).strip()
        run("mount", device, place)
        try:
            for number in range(trials):
                store = gs.Store(place / f"{number}")
                ends = number % 2 == 0  # every other one is stopped in the middle
                at = -1 if ends else draw.randrange(5, 40)
                with under(TiredDisk(at, "crash")), contextlib.suppress(Crash):
                    train_plainly(store)
                if ends:
                    time.sleep(draw.uniform(0, most_seconds))
                lose_power(place)
                run("umount", place)
                run("mount", device, place)
                whole = not ends or (store.find(SPEC).ended and store.verify() == [])
                try:
                    assert whole
                    assert_sound(gs.Store(store.root))
                except (AssertionError, gs.GrokscopeError) as error:
                    lost += 1
                    print(f"trial {number}: {error or 'what had ended is not whole'}")
        finally:
            run("umount", place)
            run("losetup", "--detach", device)
    print(f"{lost} of {trials} trials lost something that they were told is safe.")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 8.0))
