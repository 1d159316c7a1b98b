"""A child that needs no library: it counts the epochs it was asked for."""

from __future__ import annotations

import os

from benchmarks.teams import serve


class Counting:
    def __init__(self, problems: list[str]) -> None:
        self.problems, self.epochs = problems, 0

    def warm_up(self) -> None:
        print("what a contender prints is no answer")

    def advance(self, epochs: int) -> None:
        self.epochs += epochs

    def report(self) -> dict[str, object]:
        return {"problems": self.problems, "epochs": self.epochs, "threads": os.environ["NPROC"]}

    def die(self) -> None:
        os._exit(3)


if __name__ == "__main__":
    serve({"counting": Counting})
