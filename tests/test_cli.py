"""The command line: what it prints, how it exits."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

import grokscope as gs
from grokscope import cli, interrupts
from grokscope.spec import to_toml
from small_incontext import SMALL

TINY = [
    "--task.modulus=11",
    "--task.train-fraction=0.6",
    "--model.width=8",
    "--model.hidden=16",
    "--training.epochs=100",
    "--training.log-every=10",
]


def largest(operands, modulus):
    return operands.max(axis=1)


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Run a command line in an empty directory: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GROKSCOPE_STORE", raising=False)

    def call(*arguments):
        try:
            code = cli.run(list(arguments))
        except SystemExit as stop:  # tyro's own refusals
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_overview_and_version(call):
    code, out, _ = call()
    assert code == 0
    for name in cli.COMMANDS:
        assert name in out
    assert call("--version")[1].strip() == f"grokscope {gs.__version__}"
    code, _, err = call("trian")
    assert code == 2
    assert "Did you mean train" in err


def test_help_explains_every_field(call):
    code, out, _ = call("train", "--help")
    assert code == 0
    for flag in ("--task.alphabet", "--prior.strength", "--interventions.mask.keep", "--seed"):
        assert flag in out
    assert "Multiplies the penalty" in out


def test_help_has_an_example_per_line_and_flowing_sentences(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = call("lab", "--help")[1]
    examples = [
        "Examples:",
        "    grokscope lab",
        "    grokscope lab --allow my_rule.py my_data.csv",
    ]
    assert "\n".join(examples) in out
    assert "else `store` in the nearest grokscope.toml, here or above, or in" in out


def test_train_list_show(call):
    code, out, err = call("train", "laptop", *TINY, "--over", "seed=0..1")
    assert code == 0
    assert "structural condition" in out
    assert err.count("finished") == 2
    code, out, err = call("train", "laptop", *TINY, "--over", "seed=0..1")
    assert "2 runs were already in the store" in err
    code, out, _ = call("runs")
    assert out.count("not by 100") >= 2
    code, out, _ = call("runs", "--where", "seed = 1")
    assert code == 0
    assert "seed=1" in out
    assert call("runs", "--where", "seed = 7")[1].strip() == "No run fits."
    code, out, _ = call("runs", "--sql", "select count(*) as rows from curves")
    assert "22" in out
    code, out, _ = call("runs", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["seed"] for row in sorted(rows, key=lambda row: row["seed"])] == [0, 1]
    code, out, _ = call("runs", "--where", "seed = 1", "--json")
    assert [json.loads(line) for line in out.splitlines()] == [r for r in rows if r["seed"] == 1]
    code, out, _ = call("show", rows[0]["run"][:6])
    assert "memorisation" in out
    assert "interaction_gradient" in out
    code, out, _ = call("show", rows[0]["run"], "--json")
    assert json.loads(out)["outcome"]["epochs"] == 100
    assert json.loads(out)["provenance"]["segments"]
    code, out, _ = call("verify")
    assert (code, out.strip()) == (0, "2 sound, 0 partial, 0 bad.")


def test_toml_overrides_and_dry_run(call, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'recipe = "smoke"\n[prior]\nkind = "oracle"\n[sweep]\nseed = [0, 1, 2]\n'
    )
    code, out, _ = call("train", "mine.toml", "--prior.strength", "3", "--dry-run")
    assert code == 0
    assert out.count("to train") == 3
    assert out.count("prior.strength=3") == 3
    assert call("runs")[1].startswith("No runs in")


def test_another_kind_of_run_from_a_file(call, tmp_path):
    """In-context runs are read from TOML as from JSON, swept, overridden, and trained."""
    (tmp_path / "mine.toml").write_text(to_toml(SMALL) + "[sweep]\nseed = [0, 1]\n")
    expected = gs.sweep(SMALL.replace(training={"epochs": 20}), {"seed": [0, 1]})
    line = ["train", "mine.toml", "training.epochs=20"]
    out = call(*line, "--dry-run")[1]
    assert [text.split()[0] for text in out.splitlines()] == [spec.id for spec in expected]
    assert call(*line, "seed=1", "--quiet")[0] == 0
    assert gs.Store("runs").find(expected[1]).status == "finished"
    assert call("train", expected[1].id, "--more", "10", "--quiet")[0] == 0
    assert len(gs.Store("runs").ids()) == 2
    for extra, words in (
        (["--task.triples", "3"], "given as name=value"),
        (["task.alphabet=3"], "Unknown field task.alphabet"),
        (["task.triples=x"], "task.triples is 'x'; it must be a whole number."),
    ):
        code, _, err = call(*line, *extra)
        assert (code, words in err) == (2, True)


def test_a_sweep_is_added_to_that_of_the_file(call, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'recipe = "smoke"\n[sweep]\nseed = [0, 1, 2]\n'
        'prior = [{kind = "oracle", strength = 2}, {kind = "entropy", strength = 3}]\n'
    )
    out = call("train", "mine.toml", "--dry-run")[1]
    assert out.count("to train") == 6
    assert out.count("prior.kind=oracle prior.strength=2") == 3
    assert out.count("prior.kind=entropy prior.strength=3") == 3
    out = call("train", "mine.toml", "--over", "model.width=8,16,32", "--dry-run")[1]
    assert out.count("to train") == 18
    out = call("train", "mine.toml", "--over", "seed=5", "prior.strength=7", "--dry-run")[1]
    assert out.count("to train") == out.count("seed=5") == out.count("prior.strength=7") == 2


def test_a_rule_of_your_own_in_a_file_with_other_numbers(call, tmp_path):
    """Its fingerprint was taken of the file's numbers, so it does not hold for others."""
    spec = gs.RunSpec(task=gs.custom_task(largest, modulus=11))
    (tmp_path / "mine.toml").write_text(to_toml(spec))
    line = ("train", "mine.toml", "--dry-run")
    assert call(*line)[1].startswith(spec.id)
    code, out, _ = call(*line, "--task.modulus", "7")
    assert code == 0
    assert out == call(*line, "--over", "task.modulus=7")[1]
    code, _, err = call(*line, "--task.fingerprint", "0123456789abcdef")
    assert code == 2
    assert "fingerprint" in err


def test_quiet(call):
    code, out, err = call("train", "laptop", *TINY, "--quiet")
    assert (code, out, err) == (0, "", "")


def test_recipes_print_as_toml(call, tmp_path):
    out = call("recipes")[1]
    assert all(name in out for name in gs.RECIPES)
    (tmp_path / "paper.toml").write_text(call("recipes", "paper-dial")[1])
    out = call("train", "paper.toml", "--dry-run")[1]
    assert gs.find_recipe("paper-dial").id in out


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["train", "nope"], 2, "There is no recipe 'nope'"),
        (["train", "3988"], 2, "If it is a run, add --more EPOCHS."),
        (["train", "task.modulus=abc"], 2, "task.modulus is 'abc'; it must be a whole number."),
        (["train", "task=3"], 2, "task is a group of fields; name one, such as task.kind."),
        (["train", "gone.toml"], 2, "Cannot read gone.toml"),
        (["train", "--task.alphabit", "3"], 2, "--task.alphabet"),
        (["train", "--task.modulus", "many"], 2, "modulus"),
        (["train", "--task.kind", "division", "--task.modulus", "15"], 2, "prime modulus"),
        (["train", "--over", "seed"], 2, "name=value"),
        (["train", "--over", "sead=1,2"], 2, "Did you mean seed"),
        (["train", "--processes", "0"], 2, "at least 1"),
        (["train", "--quiet", "smoke"], 2, "Name the recipe or file first"),
        (["show", "abc"], 3, "There is no run 'abc'"),
        (["verify"], 3, "There is no store"),
        (["recipes", "papper"], 2, "Did you mean paper"),
        (["figure", "abc", "--kind", "pie"], 2, "There is no figure 'pie'"),
        (["runs", "--sql", "select", "--where", "1"], 2, "not both"),
    ],
)
def test_refusals(call, arguments, exit_code, words):
    code, out, err = call(*arguments)
    assert code == exit_code
    assert words in err + out
    assert "Traceback" not in err + out


def test_a_rule_of_your_own(call, tmp_path):
    """The command of docs/tasks.md, and its dry run."""
    (tmp_path / "mine.py").write_text(
        "def larger(operands, modulus):\n    return operands.max(axis=1)\n"
    )
    own = ["train", "laptop", *TINY, "--task.kind", "custom", "--task.rule", "mine.py:larger"]
    assert "to train" in call(*own, "--dry-run")[1]
    code, out, _ = call(*own, "--task.alphabet", "8")
    assert code == 0
    assert "task.rule=mine.py:larger" in out
    assert "finished" in call(*own, "--task.alphabet", "8", "--dry-run")[1]


def test_figures_are_listed(call):
    code, out, _ = call("figure", "--kind", "help")
    assert code == 0
    assert "starvation" in out


def test_certify(call, tmp_path):
    call("train", "laptop", *TINY, "--training.snapshots=2", "--quiet")
    (run,) = gs.Store("runs").runs()
    code, out, _ = call("certify", run.id, "--out", "new/checks.csv")
    assert code == 0
    assert "explaining away" in out
    assert "explaining away" in (tmp_path / "new" / "checks.csv").read_text()
    code, _, err = call("certify", run.id, "--out", "checks.doc")
    assert code == 2
    assert "end it in" in err
    paper = ("reproduce", "structural-inference", "theory")
    code, _, err = call(*paper, "--no-train", "--results", "nowhere")
    assert code == 3
    assert "no tables of structural-inference in nowhere" in err


def test_a_failed_run_shows_in_the_exit_code(call):
    explode = ["--optimiser.kind=sgd", "--optimiser.lr=1e30", "--optimiser.weight-decay=0"]
    code, out, _ = call("train", "laptop", *TINY, *explode)
    assert code == 4
    assert "not finite at epoch 10" in out


def test_verify_sets_damage_aside(call, tmp_path):
    call("train", "laptop", *TINY, "--quiet")
    (run,) = gs.Store("runs").runs()
    (run.path / "curve.parquet").write_bytes(b"")
    code, out, _ = call("verify")
    assert code == 3
    assert "checksum" in out
    assert "--set-aside" in out
    code, out, _ = call("verify", "--set-aside")
    assert code == 0
    assert "moved to" in out
    assert call("verify")[1].strip() == "0 sound, 0 partial, 0 bad."
    assert call("runs", "--where", "grokked is not null")[1].startswith("No runs in")
    assert call("train", "laptop", *TINY)[0] == 0


def test_figures_and_reports_from_the_command_line(call, tmp_path):
    call("train", "laptop", *TINY, "--quiet")
    (run,) = gs.Store("runs").runs()
    assert call("figure", run.id, "--out", "a.svg")[0] == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert call("report", run.id, "--out", "a.html")[0] == 0
    assert run.id in (tmp_path / "a.html").read_text()


def command(*arguments):
    # A suite that runs in the background may have been told to ignore interrupts.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    return [sys.executable, "-c", f"{listen}; from grokscope.cli import main; main()", *arguments]


def reached(store):
    """Epochs of the resume points in a store."""
    saved = [store.load_progress(run) for run in store.runs()]
    return [int(progress[0]["step"]) for progress in saved if progress is not None]


def test_what_a_callback_swallows_leaves_no_traceback():
    """Ctrl-C in a callback, as one of the garbage collector: told once, by the command."""

    class Interrupted:
        def __del__(self):
            raise KeyboardInterrupt

    class Broken:
        def __del__(self):
            raise ValueError

    told = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_type))
            with interrupts.noticed():
                Interrupted()
                Broken()
        assert told == [ValueError]
    finally:
        signal.signal(signal.SIGINT, before)


def test_interrupt_leaves_everything_resumable(tmp_path):
    """Ctrl-C in a real terminal: one sentence, exit code 130, and the next call goes on."""
    long = [*TINY[:4], "--training.epochs=300000", "--training.log-every=100", "--store=runs"]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command("train", "laptop", *long),
        cwd=tmp_path,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    store = gs.Store(tmp_path / "runs")
    deadline = time.monotonic() + 120
    while not any(reached(store)) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # the other side has closed
            break
        if not piece:
            break
        output += piece
    assert process.wait() == 130
    os.close(master)
    text = output.decode()
    assert text.count("resumes from the last resume point") == 1
    assert "Traceback" not in text
    assert "%" in text  # a bar was drawn
    (run,) = store.runs()
    assert run.status == "partial"
    assert any(reached(store))
