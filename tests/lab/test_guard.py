"""Attacks on the lab's server: each must be turned away, and each test would fail without its
guard, since the lab's own page is let through with the same request."""

from __future__ import annotations

import json
import re
import threading

import pytest
from starlette.testclient import TestClient

import grokscope as gs
from grokscope import parts
from grokscope.lab import foreman
from grokscope.lab.catalogue import check_condition
from grokscope.lab.guard import MOST_BODY, Guard
from grokscope.lab.server import Lab, make_app, serve

READS = ["/", "/static/main.js", "/api/about", "/api/runs", "/api/papers"]
ORDERS = ["/api/check", "/api/start", "/api/stop", "/api/resume"]


@pytest.mark.parametrize("path", READS)
def test_the_page_is_let_in_and_a_stranger_is_not(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 200
    client.cookies.clear()
    assert client.get(path).status_code == 403


@pytest.mark.parametrize("path", ORDERS)
def test_orders_need_the_cookie(client: TestClient, path: str) -> None:
    nonsense = {"run": "x", "over": 3}
    assert client.post(path, json=nonsense).status_code in (404, 422)
    client.cookies.clear()
    assert client.post(path, json=nonsense).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example:8321", "127.0.0.1:80", "127.0.0.1", "localhost.evil.example:8321", ""]
)
def test_a_foreign_name_for_this_machine_is_turned_away(client: TestClient, host: str) -> None:
    assert client.get("/api/runs", headers={"Host": host}).status_code == 421
    ours = {"Host": "localhost:8321", "Origin": ""}
    assert client.get("/api/runs", headers=ours).status_code == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:9999"])
def test_other_pages_cannot_order(client: TestClient, method: str, origin: str | None) -> None:
    del client.headers["Origin"]
    headers = {} if origin is None else {"Origin": origin}
    for path in (*ORDERS, "/"):
        assert client.request(method, path, headers=headers, content="{}").status_code == 403


def test_other_pages_cannot_read(client: TestClient) -> None:
    assert client.get("/api/runs", headers={"Origin": "http://evil.example"}).status_code == 403


def test_the_token_becomes_a_cookie_that_scripts_cannot_read(
    stranger: TestClient, guard: Guard
) -> None:
    assert stranger.get("/?token=guess").status_code == 403
    answer = stranger.get(f"/?token={guard.token}")
    # Not a redirect: that would be made without the cookie if another site has the link.
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0;url=/">' in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert guard.token not in cookie


def test_an_invitation_opens_the_lab_once(stranger: TestClient, guard: Guard) -> None:
    once = guard.invite()
    assert stranger.get(f"/?token={once}").status_code == 200
    assert stranger.get("/api/about").status_code == 200
    stranger.cookies.clear()
    assert stranger.get(f"/?token={once}").status_code == 403
    assert stranger.get(f"/?token={guard.token}").status_code == 200


def test_the_browsers_command_line_has_no_lasting_token(lab: Lab, monkeypatch) -> None:
    opened: list[str] = []
    said: list[str] = []
    done = threading.Event()
    monkeypatch.setattr("webbrowser.open", lambda link: (opened.append(link), done.set()))
    monkeypatch.setattr("grokscope.lab.server.Server.run", lambda self: done.wait(60))
    monkeypatch.setattr("builtins.print", lambda text, **options: said.append(text))
    serve(lab, 0)
    monkeypatch.undo()
    printed = re.search(r"http://127\.0\.0\.1:\d+/\?token=(\S+)", said[0])
    assert printed is not None
    assert opened[0].partition("=")[0] == printed[0].partition("=")[0]
    assert printed[1] not in opened[0]


def test_no_answer_holds_the_token(client: TestClient, guard: Guard, trained: list[gs.Run]) -> None:
    paths = [*READS, f"/api/run/{trained[0].id}", f"/api/rows/{trained[0].id}", "/nothing"]
    for path in paths:
        answer = client.get(path)
        assert guard.token.encode() not in answer.content
        assert guard.token not in str(answer.headers)


def test_the_token_of_another_lab_does_not_open_this_one(client: TestClient, lab: Lab) -> None:
    other = Guard(make_app(lab), 8321)
    with TestClient(other, base_url="http://127.0.0.1:8321", cookies=client.cookies) as stranger:
        assert stranger.get("/api/runs").status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/%2e%2e/cli.py",
        "/static//etc/passwd",
        "/static/vendor/../../server.py",
        "/api/run/../../etc/passwd",
        "/api/run/..%2f..%2fspec.json",
        "/api/rows/%2e%2e",
        "/api/snapshot/..%2f..%2fx/1",
    ],
)
def test_no_path_leads_out(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert b"import" not in answer.content
    assert b"root:" not in answer.content


def test_large_bodies_are_refused_with_and_without_a_length(client: TestClient) -> None:
    big = b"{" + b" " * MOST_BODY + b"}"
    assert client.post("/api/check", content=big).status_code == 413
    pieces = (b" " * 10_000 for _ in range(10))
    assert client.post("/api/check", content=pieces).status_code == 413
    assert client.post("/api/check", content=b"{}").status_code == 200


@pytest.mark.parametrize(
    "body", ["", "[]", "null", "3", '{"kind": 3}', '{"changes": []}', '{"x": 1}', "[" * 30_000]
)
def test_bodies_that_are_no_order_get_a_sentence(client: TestClient, body: str) -> None:
    answer = client.post("/api/check", content=body)
    assert answer.status_code == 422
    assert answer.json()["error"].endswith(".")


def test_every_answer_has_the_strict_policy(client: TestClient) -> None:
    for path in (*READS, "/nothing", "/api/run/x"):
        headers = client.get(path).headers
        assert "unsafe" not in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "condition",
    [
        "run in (select * from read_csv('/etc/passwd'))",
        "run in (SELECT column_1 FROM read_csv('/etc/passwd'))",
        "run in (table read_csv('/etc/passwd'))",
        "run in (from read_parquet('x'))",
        "run in (\"read_csv\"('/etc/passwd'))",
        "true; drop table runs",
        "seed = 1 -- and",
        "seed = 1 /* x */",
        "run = 'a''b' or exists (select 1)",
        "seed = 0 " + "or seed = 0 " * 60,
        "unknown = 3",
    ],
)
def test_a_filter_cannot_read_files(client: TestClient, condition: str) -> None:
    answer = client.get("/api/runs", params={"where": condition})
    assert answer.status_code == 422
    assert "root:" not in answer.text


def test_columns_and_texts_may_hold_the_quotes_of_the_other() -> None:
    columns = ["x y", "it's", "run"]
    check_condition("""\"x y\" > 1e-3 and run = 'say "x"' and "it's" < 2""", columns)
    hidden = """\"it's\" = 1 or run in (select a from read_csv('/etc/passwd')) or "it's" = 1"""
    for condition in (hidden, 'run = "y x"', "run = 1select"):
        with pytest.raises(gs.SpecError, match="No run has"):
            check_condition(condition, columns)


@pytest.mark.parametrize(
    "changes",
    [
        {"task.kind": "custom", "task.rule": "{file}:rule"},
        {"task.kind": "custom", "task.rule": "os:system"},
        {"prior.kind": "custom", "prior.rule": "{file}:rule"},
        {"model.kind": "custom", "model.rule": "{file}:rule"},
        {"training.measures": "{file}:rule"},
        {"task.kind": "data", "task.source": "{file}.csv"},
        {"task.kind": "custom", "task.rule": "{file}.csv:rule"},
    ],
)
def test_code_that_was_not_named_is_not_run(client, tmp_path, changes) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef rule(x, m): return x[:, 0]\n")
    wish = {name: value.replace("{file}", str(file)) for name, value in changes.items()}
    for path in ("/api/check", "/api/start"):
        answer = client.post(path, json={"changes": wish})
        assert answer.status_code == 422
        assert "--allow" in answer.json()["error"]
    assert not (tmp_path / "ran").exists()


def test_code_that_was_named_is_used(lab: Lab, client, tmp_path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def rule(operands, modulus):\n    return operands.sum(axis=1) % modulus\n")
    wish = {"changes": {"task.kind": "custom", "task.rule": f"{file}:rule"}}
    assert client.post("/api/check", json=wish).status_code == 422
    lab.allowed.append(file.resolve())
    assert client.post("/api/check", json=wish).json()["left"] == 1


def test_a_data_file_does_not_let_a_module_of_its_name_in(lab: Lab, client, tmp_path) -> None:
    """`train.csv:rule` is a function of the module `train.csv`, not of the file."""
    lab.allowed.append((tmp_path / "train.csv").resolve())
    rule = f"{tmp_path / 'train.csv'}:rule"
    answer = client.post("/api/check", json={"changes": {"task.kind": "custom", "task.rule": rule}})
    assert answer.status_code == 422
    assert "only uses functions of .py files" in answer.json()["error"]


def test_a_stored_run_with_code_that_was_named_is_looked_at(
    tmp_path, small: gs.RunSpec, monkeypatch
) -> None:
    """It was trained by an earlier process, and teaches another through a foreman."""
    file = tmp_path / "mine.py"
    file.write_text("def rule(operands, modulus):\n    return operands.sum(axis=1) % modulus\n")
    store = gs.Store(tmp_path / "runs")
    own = small.replace(**{"task.kind": "custom", "task.rule": f"{file}:rule"})
    own = own.replace(**{"training.epochs": 20, "training.snapshots": 0})
    run = gs.train(own, store, processes=1)[0]
    monkeypatch.setattr(parts, "_named", set())
    guard = Guard(make_app(Lab(store, allowed=[file])), 8321)
    with TestClient(guard, base_url="http://127.0.0.1:8321") as client:
        client.get(f"/?token={guard.token}")
        answer = client.get(f"/api/snapshot/{run.id}/final")
        assert answer.status_code == 200, answer.json()
    monkeypatch.setattr(parts, "_named", set())
    pupil = small.replace(**{"prior.kind": "teacher", "prior.teacher": run.id})
    pupil = pupil.replace(**{"training.epochs": 20, "training.snapshots": 0})
    path = tmp_path / "order.json"
    assert foreman._work(path, [pupil], store) == 0
    assert not path.with_suffix(".error").exists()
    assert store.find(pupil).ended


def test_a_run_in_the_store_cannot_bring_code(tmp_path, small: gs.RunSpec) -> None:
    """Neither by looking at its weights, nor by resuming it, nor as the teacher of another."""
    file = tmp_path / "evil.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef rule(x, m): return x[:, 0]\n")
    store = gs.Store(tmp_path / "runs")
    evil = small.replace(**{"task.kind": "custom", "task.rule": f"{file}:rule"})
    run = store.begin(evil)
    guard = Guard(make_app(Lab(store)), 8321)
    home = "http://127.0.0.1:8321"
    with TestClient(guard, base_url=home, headers={"Origin": home}) as client:
        client.get(f"/?token={guard.token}")
        assert client.get(f"/api/run/{run.id}").status_code == 200
        assert client.get(f"/api/snapshot/{run.id}/final").status_code == 422
        assert client.post("/api/resume", json={"run": run.id}).status_code == 422
        pupil = {"prior.kind": "teacher", "prior.teacher": run.id}
        assert client.post("/api/start", json={"changes": pupil}).status_code == 422
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("path", ["rows/{run}?from=-1", "rows/{run}?from=1e9", "rows/{run}?from=x"])
def test_numbers_are_bounded(client: TestClient, trained: list[gs.Run], path: str) -> None:
    assert client.get("/api/" + path.replace("{run}", trained[0].id)).status_code == 422


def test_orders_are_bounded(client: TestClient) -> None:
    for wish in (
        {"over": "seed=0..999999"},
        {"over": "seed=0..99 prior.start=0..99"},
        {"changes": {"training.epochs": 2_000_000_000}},
        {"changes": {"task.modulus": 10**12}},
        {"changes": {"optimiser.lr": "x" * 3000}},
        {"over": "seed=" + ",".join("1" * 2000)},
    ):
        answer = client.post("/api/check", json=wish)
        assert answer.status_code == 422, wish
        assert len(json.dumps(answer.json())) < 4000
