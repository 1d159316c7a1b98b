"""What the page can ask: lists, runs, rows, pictures, forms, orders."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx2
import numpy as np
import pytest
from starlette.testclient import TestClient

import grokscope as gs
from grokscope.cli import run as run_command
from grokscope.lab import autopsy, catalogue, forms, scrubbing, verdicts, watching
from grokscope.lab.catalogue import UNTOLD, Line, label_arms
from grokscope.lab.guard import Guard
from grokscope.lab.orders import Orders
from grokscope.lab.server import Lab, make_app
from grokscope.lab.watching import command_of, tell_events
from grokscope.measures.outcomes import conclude
from grokscope.pages.reading import read_run
from grokscope.spec import flatten
from grokscope.store.annotations import peek_annotation
from small_incontext import SMALL


def unpack(data: bytes) -> dict[str, np.ndarray]:
    """The page's own reading of rows, in Python."""
    size = struct.unpack("<I", data[:4])[0]
    head = json.loads(data[4 : 4 + size])
    place, rows = 4 + size, head["rows"]
    found = {"epoch": np.frombuffer(data, "<f8", rows, place)}
    place += 8 * rows
    for column in head["columns"]:
        width = column["width"] or 1
        found[column["name"]] = np.frombuffer(data, "<f4", rows * width, place)
        place += 4 * rows * width
    assert place == len(data)
    return found


def test_rows_are_the_curve_and_only_new_ones_are_sent(client, trained) -> None:
    curve = trained[0].curve
    every = unpack(client.get(f"/api/rows/{trained[0].id}").content)
    assert set(every) == set(curve.columns)
    np.testing.assert_array_equal(every["epoch"], curve["epoch"].to_numpy())
    np.testing.assert_array_equal(every["test_loss"], curve["test_loss"].to_numpy())
    np.testing.assert_array_equal(every["attention"], np.ravel(curve["attention"].to_list()))
    some = unpack(client.get(f"/api/rows/{trained[0].id}?from=3").content)
    np.testing.assert_array_equal(some["epoch"], curve["epoch"].to_numpy()[3:])
    again = unpack(client.get(f"/api/rows/{trained[0].id}?from=999").content)
    np.testing.assert_array_equal(again["epoch"], every["epoch"])  # it was begun again


def test_runs_are_listed_in_arms_and_filtered_as_on_the_command_line(client, trained, lab) -> None:
    every = client.get("/api/runs").json()["runs"]
    assert {line["run"] for line in every} == {run.id for run in trained}
    arms = {line["run"]: line["arm"] for line in every}
    without, prior = trained[:2], trained[2:]
    assert arms[without[0].id] == arms[without[1].id] != arms[prior[0].id] == arms[prior[1].id]
    assert {line["label"] for line in every} == {"no prior", "oracle prior"}
    for where in (
        "prior_kind = 'oracle' and seed = 1",
        "test_accuracy >= 0 and not (seed in (0))",
        "exp(seed) > 2 and power(seed, 2) = 1 and substr(prior_kind, 1, 2) = 'or'",
        "cast(seed as double) / 2 > 0.1",
    ):
        found = client.get("/api/runs", params={"where": where}).json()["runs"]
        by_store = lab.store.sql(f"select run from runs where {where}")["run"].to_list()
        assert sorted(line["run"] for line in found) == sorted(by_store)
        assert by_store


def test_an_arm_among_many_begins_with_what_is_rare(small) -> None:
    """A list shows three lines of a label, whatever other kinds of runs lie in the store."""
    specs = gs.sweep(
        small, {"optimiser.lr": [0.1, 0.2], "model.width": [16, 24], "training.epochs": [10, 20]}
    )
    specs += [specs[0].replace(**{"prior.kind": "oracle", "prior.strength": 3.0})]
    fork = {"fork.parent": specs[0].id, "fork.epoch": 5}
    lines = [
        Line(
            run=spec.id,
            arm=spec.id,
            seed=0,
            status="finished",
            kind=spec.kind_name,
            epochs=1,
            budget=1,
            times={},
            final={},
            fields=dict(flatten(spec.to_dict())),
            told=tuple(n for n in spec.changed() if n not in UNTOLD),
            changed=0.0,
        )
        for spec in [*specs, specs[0].replace(**fork), gs.spec.ObservedSpec("mine")]
    ]
    labels = label_arms(lines)
    *_, oracle, forked, watched = (labels[line.arm] for line in lines)
    assert oracle.startswith("oracle prior, strength 3, ")
    assert forked.startswith(f"fork of {specs[0].id[:8]}, from 5 on, ")
    assert watched == "mine"
    assert "modulus" not in "".join(labels.values())  # all have the same


def test_lines_from_the_index_are_those_of_the_files(trained, monkeypatch) -> None:
    monkeypatch.setattr("grokscope.store.index.RECENT", -1.0)  # what has just been written counts
    store, names = gs.Store(trained[0].path.parent), {run.id for run in trained}
    store.table()
    slow, quick = catalogue.Catalogue(store), catalogue.Catalogue(store)
    slow.renew(names)
    read: list[str] = []
    monkeypatch.setattr(catalogue, "MANY", 1)
    plain = catalogue.read_line
    monkeypatch.setattr(catalogue, "read_line", lambda s, name: read.append(name) or plain(s, name))
    quick.renew(names)
    assert len(read) == 2  # one of each arm
    lines = {line.run: line.to_json("") for line in quick.lines()}
    assert lines == {line.run: line.to_json("") for line in slow.lines()}
    assert {line["seed"] for line in lines.values()} == {0, 1}


def test_a_list_is_shown_before_all_of_it_was_read(trained, lab, monkeypatch) -> None:
    def ask() -> dict:
        return json.loads(lab.runs(SimpleNamespace(query_params={})).body)

    go, plain = threading.Event(), catalogue.read_line
    monkeypatch.setattr(catalogue, "read_line", lambda s, name: go.wait(60) and plain(s, name))
    monkeypatch.setattr("grokscope.lab.server.PATIENCE", 0.0)
    first = ask()
    assert (first["runs"], first["whole"]) == ([], False)
    go.set()
    lab._reader.join()
    monkeypatch.setattr("grokscope.lab.server.PATIENCE", 60.0)
    then = ask()
    assert (len(then["runs"]), then["whole"]) == (len(trained), True)
    assert lab._untold == {run.id for run in trained}  # listeners will hear of them


def test_only_some_lines_are_asked_for(client, trained) -> None:
    names = [trained[2].id, trained[0].id]
    found = client.get(f"/api/runs?only={','.join(names)},0000000000000000").json()["runs"]
    assert {line["run"] for line in found} == set(names)


def test_hostile_names_and_damaged_runs_do_no_harm(client, lab, store, tmp_path) -> None:
    name = "<img src=x onerror=alert(1)></script>"
    lab.store.begin(gs.spec.ObservedSpec(name, settings={"<b>": "'\"; --"}))
    broken = lab.store.root / "0123456789abcdef"
    broken.mkdir()
    (broken / "spec.json").write_text('{"kind": ["x"], "seed": {}}')
    try:
        listed = client.get("/api/runs").json()["runs"]
        found = next(line for line in listed if line["kind"] == "observed")
        assert found["label"].startswith(name)
        assert broken.name not in {line["run"] for line in listed}
        detail = client.get(f"/api/run/{found['run']}")
        assert detail.json()["subject"] == name
        assert detail.headers["content-type"] == "application/json"
        assert client.get(f"/api/run/{broken.name}").status_code in (404, 422)
    finally:
        for path in (broken, lab.store.root / found["run"]):
            lab.store.set_aside(path)


DEEP = "[" * 900 + "]" * 900


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("spec.json", '{"training": {"epochs": 1e999}}'),
        ("spec.json", '{"seed": 1e999}'),
        ("spec.json", f'{{"task": {{"measures": {DEEP}}}}}'),
        ("spec.json", '{"a":' * 900 + "1" + "}" * 900),
        ("outcome.json", '{"final": {"test_accuracy": 1e999}}'),
        ("outcome.json", f'{{"final": {{"test_accuracy": "<b>"}}, "epochs": {DEEP}}}'),
        ("outcome.json", '{"grokked": {"threshold": 1, "epoch": -1e999}}'),
        ("outcome.json", '{"final": 3}'),
    ],
)
def test_one_bad_file_does_not_break_the_list(tiny, store, file, text) -> None:
    good = store.begin(tiny)
    bad = store.begin(tiny.replace(seed=1))
    (bad.path / file).write_text(text)
    lab = Lab(store)
    guard = Guard(make_app(lab), 8321)
    home = "http://127.0.0.1:8321"
    with TestClient(guard, base_url=home, raise_server_exceptions=False) as client:
        client.get(f"/?token={guard.token}")
        answer = client.get("/api/runs")
        assert answer.status_code == 200
        assert good.id in {line["run"] for line in answer.json()["runs"]}
        assert client.get(f"/api/run/{bad.id}").status_code in (200, 404, 422)


def test_a_run_is_told_in_words(client, trained) -> None:
    found = client.get(f"/api/run/{trained[2].id}").json()
    assert found["snapshots"] == trained[2].snapshots
    assert len(found["snapshots"]) == 5
    assert found["fields"] == json.loads(json.dumps(dict(flatten(trained[2].spec.to_dict()))))
    assert found["headline"]
    assert sorted(found["arm"]) == sorted(run.id for run in trained[2:])
    assert [p["informative"] for p in found["positions"]] == [True, False, True, False, False]


def test_the_command_of_a_run_names_it(trained, tmp_path, capsys) -> None:
    spec = gs.find_recipe("smoke-noise").replace(
        **{"prior.kind": "oracle", "training.train_threshold": 0.5, "seed": 3}
    )
    store = gs.Store(tmp_path / "runs")
    for wanted in (trained[2].spec, spec):
        command = command_of(store.begin(wanted))
        assert run_command([*shlex.split(command)[1:], f"--store={store.root}", "--dry-run"]) == 0
        assert capsys.readouterr().out.startswith(wanted.id), command
    assert command_of(store.begin(spec)).startswith("grokscope train smoke-noise ")
    measured = spec.replace(**{"training.measures": ("a b.py:m", "n.py:k")})
    assert "--training.measures 'a b.py:m' n.py:k" in command_of(store.begin(measured))


def test_the_command_of_a_fork_and_of_another_kind(trained, store, monkeypatch) -> None:
    parent = store.begin(trained[0].spec)
    fork = {"parent": parent.id, "epoch": 180, "transplant": "mlp", "donor": trained[1].id}
    child = store.begin(parent.spec.replace(fork=fork, **{"optimiser.lr": 0.002}))
    command = f"grokscope fork {parent.id} --at 180"
    assert command_of(child).startswith(command)
    assert set(command_of(child).removeprefix(command).split(" --")) == {
        "",
        "optimiser.lr 0.002",
        "fork.transplant mlp",
        f"fork.donor {trained[1].id}",
    }
    given: list[gs.spec.Spec] = []
    monkeypatch.setattr(gs, "train", given.append)
    exec(command_of(store.begin(SMALL)))  # it is Python
    assert given[0].id == SMALL.id


def test_annotations_are_shown_and_damaged_ones_are_not(tiny, store) -> None:
    run = store.begin(tiny)
    run.annotate(name="<b>", note="seen", tag=["figure-2"])
    assert peek_annotation(run.path) == ("<b>", ("figure-2",), "seen")
    (run.path / "notes.json").write_text('{"name": [1]}')
    assert peek_annotation(run.path) == ("", (), "")


def test_rows_are_read_once_until_they_change(client, trained, monkeypatch) -> None:
    from grokscope.store import run as files

    reads = []
    read = files.read_curve
    monkeypatch.setattr(files, "read_curve", lambda *given: reads.append(given[0]) or read(*given))
    watching._read_curve.cache_clear()
    for path in ("run", "rows", "run", "rows"):
        assert client.get(f"/api/{path}/{trained[0].id}").status_code == 200
    assert len(reads) == 1
    os.utime(trained[0].path / "curve.parquet")
    client.get(f"/api/rows/{trained[0].id}")
    assert len(reads) == 2


def test_events_say_when_attention_is_starved(trained) -> None:
    import dataclasses

    import polars as pl

    from grokscope.draw.reading import Event

    epochs = [0, 25, 50, 75, 100]
    curve = pl.DataFrame({"epoch": epochs, "interaction_gradient": [1.0, 8.0, 4.0, 0.5, 0.2]})
    event = Event("train_accuracy", 0.99, 3, 50, 100)
    reading = dataclasses.replace(
        read_run(trained[0]), curve=curve, events={"memorised": event}, phases=()
    )
    texts = [event["text"] for event in tell_events(reading)]
    assert texts == [
        "memorised at 50",
        "attention is starved: the task's gradient on it fell 40-fold",
    ]
    right = curve.with_columns(pl.Series("structure_share", [0.2, 0.5, 1.0, 1.0, 1.0]))
    texts = [event["text"] for event in tell_events(dataclasses.replace(reading, curve=right))]
    assert "attention has settled: the task's gradient on it fell 40-fold" in texts


def test_pictures_agree_with_the_rows(client, trained, lab) -> None:
    """The grid counts what the curve says is right, at every kept moment."""
    run = trained[2]
    curve = {row["epoch"]: row for row in run.curve.iter_rows(named=True)}
    data = gs.build_task(run.spec.task, run.spec.seed)
    for epoch in [*run.snapshots, "final"]:
        found = client.get(f"/api/snapshot/{run.id}/{epoch}").json()
        row = curve[450 if epoch == "final" else epoch]
        cells = found["grid"]["cells"]
        assert len(cells) == 13 * 13
        right = cells.count("3") + cells.count("5")
        assert right / len(data.test) == pytest.approx(row["test_accuracy"])
        assert cells.count("1") / len(data.train) == pytest.approx(row["train_accuracy"])
        assert cells.count("5") + cells.count("6") == data.mirrored.sum()
        for example in found["examples"]:
            a, b = example["operands"]
            assert example["label"] == (a + b) % 13
            assert example["right"] == (example["answer"] == example["label"])
            np.testing.assert_allclose(np.sum(example["attention"], axis=1), 1, atol=1e-3)
    chosen = client.get(f"/api/snapshot/{run.id}/final?examples=5,7").json()["examples"]
    assert [example["example"] for example in chosen] == [5, 7]
    assert client.get(f"/api/snapshot/{run.id}/7").status_code == 404


def test_a_circle_is_seen_as_a_circle() -> None:
    """Embeddings that stand on a circle of frequency 3 come out on it, in their order."""
    p, k, rng = 17, 3, np.random.default_rng(0)
    axes, _ = np.linalg.qr(rng.normal(size=(8, 2)))
    angle = 2 * np.pi * k * np.arange(p) / p
    embedding = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ axes.T + rng.normal(size=8)
    plane = scrubbing.plane_of(embedding, np.arange(p))["planes"][0]
    assert plane["frequency"] == k
    assert plane["share"] == pytest.approx(1, abs=1e-6)
    points = np.array(plane["points"])
    np.testing.assert_allclose(np.hypot(*points.T), 1, atol=1e-3)
    np.testing.assert_allclose(np.unwrap(np.arctan2(*points.T[::-1])), angle, atol=2e-3)
    assert scrubbing.plane_of(embedding, np.zeros(0, int)) is None
    assert scrubbing.plane_of(embedding * np.nan, np.arange(p)) is None  # a run that has failed


def test_a_paper_counts_its_verdicts_as_the_readme_does(store) -> None:
    home = Path(__file__).parent.parent.parent
    paper = verdicts.describe_paper("inductive-bias", home / "results", store)
    counts: dict[str, int] = {}
    for one in paper["tally"]:
        counts[one["side"]] = counts.get(one["side"], 0) + one["count"]
    said = re.search(r"2602\.06702\): (.*) of (\d+) verdicts", (home / "README.md").read_text())
    plain = re.sub(r" \(.*?\)", "", said[1])  # what the contradictions are
    assert {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", plain)} == counts
    assert sum(counts.values()) == int(said[2])


def test_the_form_has_every_field_with_its_help(client) -> None:
    form = client.get("/api/about").json()["form"]
    fields = {field["name"]: field for field in form["kinds"]["routing"]}
    assert set(fields) == set(dict(flatten(gs.RunSpec().to_dict())))
    assert fields["prior.strength"]["help"] == "Multiplies the penalty: lambda."
    assert fields["prior.kind"]["choices"][0] == "none"
    assert fields["task.bits"]["only"] == ["parity", "parity_stream"]
    assert all(field["help"] for name, field in fields.items() if name != "interventions.mask")
    assert set(form["recipes"]) >= {*gs.RECIPES, *(set(form["kinds"]) - {"routing"})}


@pytest.mark.parametrize(
    "changes",
    [
        {"task.modulus": "1"},
        {"task.modulus": "many"},
        {"prior.kind": "strong"},
        {"task.bits": "3"},
        {"optimiser.lr": "-1"},
        {"model.width": "7", "model.heads": "2"},
        {"task.colour": "red"},
    ],
)
def test_refusals_are_the_sentences_of_the_command_line(client, changes) -> None:
    numbers = {n: int(v) if v.lstrip("-").isdigit() else v for n, v in changes.items()}
    with pytest.raises(gs.SpecError) as refused:
        gs.RunSpec().replace(**numbers)
    answer = client.post("/api/check", json={"changes": changes})
    assert answer.json()["error"] == str(refused.value)


def test_a_plan_says_what_the_store_has(client, trained, small) -> None:
    changes = {name: value for name, value in small.changed().items() if name != "seed"}
    plan = client.post("/api/check", json={"changes": changes, "over": "seed=0..2"}).json()
    assert [run["state"] for run in plan["runs"]] == ["finished", "finished", "to train"]
    assert plan["left"] == 1
    assert plan["seconds"] > 0
    assert plan["runs"][0]["run"] == trained[0].id


def test_a_plan_calls_an_interrupted_run_stopped(store, tiny) -> None:
    store.begin(tiny)
    plan = Lab(store)._plan([tiny])
    assert [run["state"] for run in plan["runs"]] == ["stopped"]
    assert plan["left"] == 1


def test_what_is_typed_becomes_the_same_run(tiny, store) -> None:
    typed = {name: str(value) for name, value in tiny.changed().items()}
    assert forms.make_specs(forms.Wish(changes=typed), [], store)[0].id == tiny.id
    swept = forms.make_specs(forms.Wish(changes=typed, over="prior.strength=0.1,1"), [], store)
    assert [spec.prior.strength for spec in swept] == [0.1, 1.0] or len(swept) == 1


@pytest.fixture
def orders(store) -> Iterator[Orders]:
    """Whatever a test has ordered stops with it."""
    orders = Orders(store)
    yield orders
    for run in orders.under_way():
        orders.stop(run)


def wait_for(condition, seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def test_an_order_stops_one_run_and_trains_the_others(orders, store, small) -> None:
    """Through processes of their own: the one that placed the order has nothing to do with it."""
    spec = small.replace(**{"training.epochs": 400_000, "training.log_every": 100})
    other = small.replace(**{"training.epochs": 200, "seed": 1})
    orders.place([spec, other])
    run = store.find(spec)
    assert set(orders.under_way()) == {spec.id, other.id}
    wait_for(lambda: (run.path / "resume.safetensors").exists())
    orders.stop(spec.id)
    assert spec.id not in orders.under_way()
    wait_for(lambda: not list(orders.folder.glob("*.json")))  # the foreman has gone
    assert run.status == "partial"
    with pytest.raises(gs.StoreError, match="not trained by this lab"):
        orders.stop(spec.id)
    with pytest.raises(gs.SpecError, match="Nothing is left"):
        orders.place([other])
    alone = gs.train(other, store.root.parent / "other", processes=1)[0]
    for name, array in alone.weights().items():
        np.testing.assert_array_equal(array, store.find(other).weights()[name])


def test_killing_the_server_harms_no_run(orders, store, small) -> None:
    """The order is carried out by a process of its own."""
    command = [sys.executable, "-m", "grokscope", "lab", "--no-open", "--port", "0"]
    command += ["--store", str(store.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        link = server.stdout.readline().split()[-1]
        home = link.partition("/?")[0]
        with httpx2.Client(base_url=home, headers={"Origin": home}, timeout=120) as visitor:
            visitor.get(link, follow_redirects=True).raise_for_status()
            changes = {name: str(value) for name, value in small.changed().items()}
            wish = {"changes": {**changes, "seed": "7"}}
            answer = visitor.post("/api/start", json=wish).raise_for_status().json()
        server.kill()
    assert set(orders.under_way()) == set(answer["runs"])
    wait_for(lambda: store.get(answer["runs"][0]).ended)
    assert store.get(answer["runs"][0]).status == "finished"
    wait_for(lambda: not orders.under_way())
    alone = gs.train(small.replace(seed=7), store.root.parent / "other", processes=1)[0]
    assert store.get(alone.id).curve.equals(alone.curve)


def test_a_foreman_may_take_long_to_get_up(orders, store, small, tmp_path, monkeypatch) -> None:
    """On a busy machine its imports take longer than anybody would wait for a stranger's."""
    sleeper = tmp_path / "python"
    sleeper.write_text("#!/bin/sh\nexec sleep 600\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(sleeper))
    monkeypatch.setattr("grokscope.lab.orders.STARTING", 0.0)
    order = orders.place([small])
    assert orders.under_way() == {small.id: order}
    orders._foremen[order].kill()
    orders._foremen[order].wait()
    assert orders.under_way() == {}
    assert not (orders.folder / f"{order}.json").exists()


def test_an_order_that_has_just_gone_is_not_alive(orders) -> None:
    assert not orders._alive(orders.folder / "gone.json")


def test_news_goes_on_after_a_look_that_failed(lab, monkeypatch) -> None:
    looks = iter([OSError("the disk is away"), "0123456789abcdef"])

    def look() -> None:
        found = next(looks, None)
        if isinstance(found, OSError):
            raise found
        lab._untold |= {found} - {None}

    async def listen() -> dict:
        queue: asyncio.Queue = asyncio.Queue()
        lab.listeners.add(queue)
        task = asyncio.create_task(lab.keep_looking())
        try:
            return await asyncio.wait_for(queue.get(), 20)
        finally:
            task.cancel()

    monkeypatch.setattr(lab, "look", look)
    monkeypatch.setattr("grokscope.lab.server.TROUBLE_SECONDS", 0.0, raising=False)
    assert asyncio.run(listen()) == {"changed": ["0123456789abcdef"]}


def test_an_order_that_cannot_be_carried_out_says_why(orders, small) -> None:
    pupil = small.replace(**{"prior.kind": "teacher", "prior.teacher": "0" * 16})
    orders.place([pupil])
    wait_for(lambda: bool(orders.errors()))
    assert "There is no run" in orders.errors()[0]


def test_figures_can_be_taken_away(client: TestClient, trained) -> None:
    names = ",".join(run.id for run in trained[:2])
    answer = client.get(f"/api/figure/accuracy.svg?runs={names}")
    assert answer.content.startswith(b"<svg")
    assert "attachment" in answer.headers["content-disposition"]
    assert client.get(f"/api/figure/nothing.svg?runs={names}").status_code == 422
    assert client.get(f"/api/figure/accuracy.exe?runs={names}").status_code == 422


def test_an_autopsy_finds_the_twin_and_where_they_part(client, trained, lab) -> None:
    """Seed 0 groks and stands in for the twin of seed 1."""
    twin = autopsy.find_twin(trained[1], trained[:2])
    assert twin is not None
    assert twin.id == trained[0].id
    found = client.get(f"/api/autopsy/{trained[1].id}").json()
    assert found["twin"] == twin.id
    epochs = [part["epoch"] for part in found["parts"]]
    assert epochs == sorted(epochs)
    assert found["at"] in trained[1].curve["epoch"].to_list()
    for fork in found["forks"]:
        parent = {"fork.parent": trained[1].id, "fork.epoch": found["at"], **fork["changes"]}
        changes = {**trained[1].spec.changed(), **parent}
        plan = client.post("/api/check", json={"changes": changes})
        assert plan.json().get("left") == 1, plan.json()


def test_an_autopsy_of_a_run_in_context_has_no_forks(store) -> None:
    """Its accuracy has another name, and it cannot be forked."""
    run, twin = (
        invent_run(store, SMALL.replace(seed=seed), grokked)
        for seed, grokked in ((0, False), (1, True))
    )
    found = autopsy.examine(run, twin)
    assert "grokked at 0; this one is at 10" in found["sentence"]
    assert found["forks"] == []


def invent_run(store, spec, grokked: bool) -> gs.Run:
    rows = np.linspace(0, 1, 5, dtype=np.float32)
    curve = {rule.measure: np.full(5, 0.1, np.float32) for rule in spec.events()}
    curve["ood_val_accuracy"] = 0.9 + rows / 10 if grokked else 0.1 + 0 * rows
    curve = {"epoch": np.arange(5, dtype=np.int32) * 10, **curve}
    run = store.begin(spec)
    store.finish(run, curve, {}, conclude(spec, curve), {"segments": []})
    return store.get(run.id)


def test_two_curves_part_where_they_stay_apart() -> None:
    theirs = np.linspace(0, 1, 11)
    assert autopsy.part_at(theirs.copy(), theirs, 3) is None
    apart = theirs.copy()
    apart[2] += 0.5  # a single row is noise
    apart[6:] -= 0.3
    assert autopsy.part_at(apart, theirs, 3) == 6
    assert autopsy.part_at(theirs, np.ones(11), 3) is None
