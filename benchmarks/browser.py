"""How quick the live lab is, measured in a real browser: `python -m benchmarks.browser`.

    first row     from the moment a row is written to the moment it is on the screen (bar: 0.5 s)
    drawing       20 runs of 5,000 rows, all plots, until the frame is there (bar: 200 ms)
    listing       a store of 10,000 runs, from the request to the first arm on the screen: without
                  the store's index, with it, and once more (bar: 1 s)
    watching      what an open page costs a run that trains (bar: 2 %), in turns within one training

Needs the extra `dev` and Debian's chromium. Prints a table; a busy machine gives other numbers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import grokscope as gs
from benchmarks.scale import multiply
from grokscope.lab.server import Lab, make_server
from grokscope.measures.outcomes import conclude

RUNS, ROWS, MANY, TURNS = 20, 5000, 10_000, 8
WINDOW, SETTLED = 20.0, 2.0  # seconds
WATCHED = gs.find_recipe("laptop-noise").replace(training={"epochs": 1_000_000, "stop": "never"})
TRAINING = """
import sys, time
import grokscope as gs
store = gs.Store(sys.argv[1])
tell = lambda event: print(time.time(), event.epoch, flush=True)
gs.train(store.get(sys.argv[2]).spec, store, processes=1, progress=False, sinks=tell)
"""
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]


def made_up_curve(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Every column of a real row, smooth and noisy."""
    rng = np.random.default_rng(seed)
    rise = 1 / (1 + np.exp(-np.linspace(-6, 6, rows) + rng.normal()))
    names = ("train_accuracy", "test_accuracy", "weakest_min", "weakest_q10")
    sizes = ["train_loss", "test_loss", "divergence", "logit_gradient_mean", "mlp_norm"]
    sizes += ["interaction_gradient", "parameter_norm", "lipschitz_bound"]
    curve = {name: rise + 0.01 * rng.random(rows) for name in names}
    curve |= {name: np.exp(-3 * rise) + 0.01 * rng.random(rows) for name in sizes}
    numbers = {name: values.astype(np.float32) for name, values in curve.items()}
    attention = np.tile(np.full(5, 0.2, np.float32), (rows, 1))
    return {"epoch": np.arange(rows, dtype=np.int32) * 10, **numbers, "attention": attention}


def fill_store(store: gs.Store, runs: int, rows: int) -> list[str]:
    names = []
    for seed in range(runs):
        spec = gs.RunSpec().replace(seed=seed % 50, prior={"start": seed // 50})
        spec = spec.replace(**{"prior.kind": "oracle", "training.epochs": rows * 10})
        run, curve = store.begin(spec), made_up_curve(rows, seed)
        store.finish(run, curve, {}, conclude(spec, curve), {"segments": []})
        names.append(run.id)
    return names


@contextmanager
def opened(store: gs.Store) -> Iterator[str]:
    """A lab on a store; its link."""
    server, link = make_server(Lab(store), 0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield link
    server.should_exit = True
    thread.join()


def enter(page: Any, link: str) -> str:
    """Exchange the token for the cookie; the address of the lab."""
    page.context.request.get(link)
    return link.partition("?")[0]


def measure_first_row(page: Any, store: gs.Store, link: str) -> float:
    spec = gs.RunSpec().replace(seed=77)
    run = store.begin(spec)
    page.goto(enter(page, link) + f"#view=runs&runs={run.id}&focus={run.id}")
    page.reload()
    page.wait_for_selector("#headline")
    store.save_progress(run, made_up_curve(4, 0), None, {"segments": []})
    began = time.perf_counter()
    page.wait_for_selector(".plots canvas")
    return time.perf_counter() - began


def measure_drawing(page: Any, names: list[str], link: str) -> list[float]:
    """As the page itself times it, from new plots to their frame, over several redrawings."""
    page.goto(enter(page, link) + f"#view=runs&runs={','.join(names)}&focus={names[0]}")
    page.reload()
    page.wait_for_selector(f".plots[data-rows='{RUNS * ROWS}'] canvas")
    found = []
    for _ in range(TURNS):
        page.locator("body").press("l")
        page.wait_for_timeout(1500)
        found.append(float(page.get_attribute(".plots", "data-milliseconds")))
    return found


def measure_listing(page: Any, folder: Path) -> list[float]:
    """Of a store that nobody has listed yet; of one that has an index; and once more."""
    store = gs.Store(folder / "many")
    (name,) = fill_store(store, 1, 10)
    multiply(store.get(name), range(1, MANY))
    times: list[float] = []
    for _ in range(2):
        with opened(gs.Store(store.root)) as link:
            home = enter(page, link)
            for _ in range(1 + len(times)):
                began = time.perf_counter()
                page.goto(home + f"#view=runs&runs={name}")
                page.wait_for_selector(".arm")
                times.append(time.perf_counter() - began)
                page.goto("about:blank")
        store.table()
    return times


def measure_watching(page: Any, folder: Path) -> tuple[list[float], list[float]]:
    """How many times as long an epoch takes while a page watches, from neighbouring windows of one
    training, since between two trainings a machine changes by more than this; and the processor
    time of server and browser over that of the training."""
    store, pace = gs.Store(folder / "watched"), folder / "pace"
    run = store.begin(WATCHED)
    windows = []
    with pace.open("w") as file, opened(store) as link:
        command = [sys.executable, "-c", TRAINING, str(store.root), run.id]
        training = subprocess.Popen(command, stdout=file)
        try:
            while len(pace.read_text().splitlines()) < 20:  # compiled, and under way
                time.sleep(0.2)
            home = enter(page, link)
            for turn in range(2 * TURNS + 1):
                watched = turn % 2 == 1
                page.goto(home if watched else "about:blank")
                if watched:
                    page.wait_for_selector(".plots canvas")
                time.sleep(SETTLED)  # opening the page is not what is asked
                before = time.time(), processor_seconds(os.getpid(), training.pid)
                time.sleep(WINDOW)
                windows.append(
                    (before, (time.time(), processor_seconds(os.getpid(), training.pid)))
                )
        finally:
            training.kill()
            training.wait()
    told = np.array([line.split() for line in pace.read_text().splitlines()[:-1]], float)
    ratios, shares, speeds = [], [], []
    for (began, busy), (ended, busy_then) in windows:
        epochs = np.diff(np.interp([began, ended], told[:, 0], told[:, 1]))[0]
        speeds.append(epochs / (ended - began))
        shares.append((busy_then[0] - busy[0]) / (busy_then[1] - busy[1]))
    for turn in range(1, 2 * TURNS, 2):  # against the windows before and after
        ratios.append((speeds[turn - 1] + speeds[turn + 1]) / 2 / speeds[turn])
    return ratios, shares[1::2]


def processor_seconds(*roots: int) -> list[float]:
    """Of each of these processes with all that descend from it and are alive, those of the later
    ones left out of the first, which is this process: the server, and the browser below it."""
    found: dict[int, tuple[int, float]] = {}  # by process: its parent, and what it has used
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            used = sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")
            found[int(path.parent.name)] = int(words[1]), used
    totals = []
    for root in roots:
        ours = [root]
        for process in ours:  # grows on the way
            ours += [c for c, (parent, _) in found.items() if parent == process and c not in roots]
        totals.append(sum(found[process][1] for process in ours if process in found))
    return totals


def main() -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        folder = Path(place)
        page = driver.chromium.launch(executable_path=chromium, args=FLAGS).new_page()
        store = gs.Store(folder / "runs")
        names = fill_store(store, RUNS, ROWS)
        with opened(store) as link:
            drawing = measure_drawing(page, names, link)
            first = [measure_first_row(page, gs.Store(folder / "runs"), link) for _ in range(1)]
        print(f"first row on the screen   {first[0]:.2f} s")
        print(f"{RUNS} runs of {ROWS:,} rows     {statistics.median(drawing):.0f} ms  {drawing}")
        print(
            "{:,} runs listed       {:.2f} s, with an index {:.2f} s, then {:.2f} s".format(
                MANY, *measure_listing(page, folder)
            )
        )
        ratios, shares = measure_watching(page, folder)
        print(f"training while watched    {statistics.median(ratios):.3f}  {ratios}")
        print(f"processor time of it      {statistics.median(shares):.1%}  {shares}")


if __name__ == "__main__":
    main()
