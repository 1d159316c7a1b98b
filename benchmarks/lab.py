"""The lab's side of the comparison, and the floor under it: `python -m benchmarks.lab` is a child.

`Lab` is what `grokscope train` does between two resume points: the compiled program with every
default measure, one run after the other. The floor is the model's matrix products alone.
"""

from __future__ import annotations

import resource
import tempfile
import time
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.teams import make_operands, serve
from grokscope.engine.compilation import default_options, prepare
from grokscope.engine.program import BLOCK, Form, make_member, make_program, measure, train_step
from grokscope.spec import from_dict
from grokscope.store import Store

FOR_EVER = 10**6  # epochs: no run ends while it is timed
CALLS = 5  # of which the median is taken
NOWHERE = tempfile.TemporaryDirectory()  # a store from which nothing is read


def make_members(problems: list[dict[str, Any]], **changes: Any) -> tuple[Form, list[Any]]:
    """The members of one form; `problems` hold their specs, and the store of those that need a
    teacher or a ticket."""
    changes = {"training.epochs": FOR_EVER, **changes}
    made = [
        make_member(
            from_dict(problem["spec"]).replace(**changes), Store(problem.get("store", NOWHERE.name))
        )
        for problem in problems
    ]
    return made[0][0], [member for _, member in made]


class Lab:
    """One member after the other, measured as always."""

    batched = False

    def __init__(self, problems: list[dict[str, Any]]) -> None:
        self.problems = problems
        self.form, members = make_members(problems)
        self.every = int(members[0].clock.log_every)
        if self.batched:
            members = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)]
        self.members = members
        options = tuple(default_options().items())
        self.program = make_program(self.form, self.batched, options)
        self.states = [self.program.init(member) for member in members]

    def warm_up(self) -> None:
        self._write_rows(1)  # the row before the first epoch

    def advance(self, epochs: int) -> None:
        rows, rest = divmod(epochs, self.every)
        if rest or rows > BLOCK:
            raise ValueError(f"{epochs} epochs are not up to {BLOCK} rows of {self.every}.")
        self._write_rows(rows)

    def _write_rows(self, rows: int) -> None:
        for index, member in enumerate(self.members):
            state, block, _ = self.program.advance(self.states[index], member, jnp.int32(rows))
            jax.block_until_ready(block)
            self.states[index] = state

    def losses(self, epochs: int) -> list[float]:
        """Of the first member, from its initial weights, through the rows of its curve."""
        _, (member,) = make_members(self.problems[:1], **{"training.log_every": 1})
        state = self.program.init(member)
        losses: list[float] = []
        while len(losses) < epochs:
            rows = min(BLOCK, epochs - len(losses))
            state, block, _ = self.program.advance(state, member, jnp.int32(rows))
            losses += block["train_loss"][:rows].tolist()
        return losses

    def parts(self) -> dict[str, float]:
        """Seconds of one epoch and of one row of the first member, by turns; medians."""
        member, state = self.members[0], self.states[0]
        steps = jax.jit(lambda state, member, n: _train_many(self.form, state, member, n))
        row = jax.jit(lambda state, member: measure(self.form, state, member))
        pieces = {
            "epoch": lambda: steps(state, member, jnp.int32(self.every)),
            "row": lambda: row(state, member),
        }
        times: dict[str, list[float]] = {name: [] for name in pieces}
        for turn in range(CALLS + 1):
            for name, piece in pieces.items():
                began = time.perf_counter()
                jax.block_until_ready(piece())
                if turn:  # the first compiles
                    times[name].append(time.perf_counter() - began)
        middle = {name: sorted(values)[len(values) // 2] for name, values in times.items()}
        return {"epoch": middle["epoch"] / self.every, "row": middle["row"]}

    def column_names(self) -> list[str]:
        return list(jax.eval_shape(lambda: measure(self.form, self.states[0], self.members[0])))

    def columns(self, groups: dict[str, list[str]], rounds: int = 5) -> dict[str, list[float]]:
        """Seconds of a row with the columns of the first group, the first two, and so on, in each
        round. What nobody asks for is not computed: the compiler leaves it out."""
        member, state = self.members[0], self.states[0]
        names: list[str] = []
        rows = {}
        for group, more in groups.items():
            names = [*names, *more]

            def some(state: Any, member: Any, names: tuple[str, ...] = tuple(names)) -> Any:
                row = measure(self.form, state, member)
                return {name: row[name] for name in names}

            rows[group] = jax.jit(some)
            jax.block_until_ready(rows[group](state, member))
        times: dict[str, list[float]] = {group: [] for group in groups}
        for _ in range(rounds):
            for group, row in rows.items():
                began = time.perf_counter()
                jax.block_until_ready(row(state, member))
                times[group].append(time.perf_counter() - began)
        return times

    def peak_bytes(self) -> dict[str, int]:
        """Of the process, with Python, JAX and the compiler; and of the program, as XLA has laid it
        out: data, weights, and what is there in between."""
        memory = (
            self.program.advance.lower(self.states[0], self.members[0], jnp.int32(1))
            .compile()
            .memory_analysis()
        )
        program = (
            memory.argument_size_in_bytes
            + memory.output_size_in_bytes
            + memory.temp_size_in_bytes
            - memory.alias_size_in_bytes
        )
        process = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"process": process, "program": program}


class Batched(Lab):
    """All members as one program (`vmap`)."""

    batched = True


class Alone(Lab):
    """The first member, however many there are."""

    def __init__(self, problems: list[dict[str, Any]]) -> None:
        super().__init__(problems[:1])


class Unmeasured(Lab):
    """The epochs alone."""

    def warm_up(self) -> None:
        self.steps = jax.jit(
            lambda state, member, n: _train_many(self.form, state, member, n), donate_argnums=0
        )
        self.advance(1)

    def advance(self, epochs: int) -> None:
        for index, member in enumerate(self.members):
            state = self.steps(self.states[index], member, jnp.int32(epochs))
            self.states[index] = jax.block_until_ready(state)


def _train_many(form: Form, state: Any, member: Any, epochs: Any) -> Any:
    return jax.lax.fori_loop(0, epochs, lambda _, s: train_step(form, s, member), state)


class Floor:
    """The products of forward and backward pass, nothing else, in a compiled loop.

    A result is an operand of the next round, or, like the gradients of the weights, of what the
    loop gives in the end, so that no product can be left out or taken out of the loop.
    """

    def __init__(self, problems: list[dict[str, Any]]) -> None:
        made = [make_operands(product) for product in problems[0]["products"]]
        self.start = [tuple(map(jnp.asarray, arrays)) for arrays in made]
        self.weights = [arrays[-1] for arrays in self.start]
        self.members = len(problems)
        self.loop = jax.jit(
            lambda start, weights, n: jax.lax.fori_loop(
                0, n, lambda _, found: list(map(self._multiply, weights, found)), start
            )
        )

    @staticmethod
    def _multiply(weights: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        inputs, gradients, _ = operands
        return gradients @ weights.T, inputs @ weights, inputs.T @ gradients

    def warm_up(self) -> None:
        self.advance(1)

    def advance(self, epochs: int) -> None:
        for _ in range(self.members):
            jax.block_until_ready(self.loop(self.start, self.weights, jnp.int32(epochs)))


KINDS = {"lab": Lab, "alone": Alone, "unmeasured": Unmeasured, "vmap": Batched, "floor": Floor}

if __name__ == "__main__":
    prepare()
    serve(KINDS)
