"""The paper's plan, without training it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grokscope.claims.evidence import Tables
from grokscope.claims.judgements import Faster
from grokscope.claims.studies import Claim, Study, plan
from grokscope.engine.planning import pin_spec
from grokscope.papers import PAPERS, find_paper
from grokscope.papers.structural_inference import figures
from grokscope.papers.structural_inference.paper import PAPER
from grokscope.papers.structural_inference.settings import settings
from grokscope.spec import RunSpec


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_every_arm_of_the_paper_is_a_sound_run(scale):
    planned = plan(PAPER.select([]), scale)
    by_id: dict[str, RunSpec] = {}
    for item in planned:
        assert by_id.setdefault(item.spec.id, item.spec) == item.spec
    # Whatever a run needs from another is planned as well.
    for spec in by_id.values():
        for needed in (spec.prior.teacher, spec.interventions.mask.source):
            assert not needed or needed in by_id
    # Every seed has the same arms; the certified runs of the theory have one seed.
    names: dict[tuple[str, str, int], list[str]] = {}
    for item in planned:
        names.setdefault((item.study.name, item.setting.regime, item.seed), []).append(item.arm)
    assert all(arms == names[study, regime, 0] for (study, regime, _), arms in names.items())


@pytest.mark.parametrize("name", PAPERS)
def test_planned_runs_are_found_again(name):
    """A run with a part of its own is stored with the part's fingerprint; so it must be planned."""
    for item in plan([s for s in find_paper(name).studies if s.settings("laptop")], "laptop", 1):
        assert pin_spec(item.spec).id == item.spec.id, (item.study.name, item.arm)


NOT_ASKED = {
    ("laptop", "noise"): {
        "attention is the ticket",  # there is no ticket
        "mask beats random",
        "mask beats shuffled",
        "not just the norm",
        *(f"norm contracts, batch of {size}" for size in (512, 256, 128)),  # they do not memorise
        "teacher beats decay",  # no run without help groks, so none can teach
        "oracle matches teacher",
        "teacher keeps the gain",
        "teacher of another seed",
        "teacher of another modulus",
        "teacher of another width",
        "the teacher must have grokked",
    },
    ("laptop", "constant"): {
        "wider groks earlier with the prior",  # the prior gains nothing there at any width
        "prior helps the narrow",
        "prior helps the wide",
        "late start works",  # the wait is over by then
        "very late start works",
        "teacher of another seed",  # there is no gain that a teacher could keep
        "teacher of another modulus",
        "teacher of another width",
        "teacher from constant distractors",
        "the teacher must have grokked",
    },
    ("paper", "bottleneck"): {
        "matched norm, decay elsewhere",  # figure 2 has its main arms only
        "too large a norm",
        "query-key control",
        "structure alone improves",
    },
}


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_every_claim_is_asked_except_those_named(scale):
    """Otherwise a misspelt arm would make its claim disappear."""
    missing: dict[tuple[str, str], set[str]] = {}
    for study in PAPER.studies:
        for regime, sample in Tables.empty().evidence(study, scale).samples.items():
            for claim in study.claims:
                if not sample.asks(claim):
                    missing.setdefault((scale, regime), set()).add(claim.name)
    assert missing == {where: names for where, names in NOT_ASKED.items() if where[0] == scale}


def test_the_study_of_contributing_works():
    """The example that shows how to add a study is one."""
    text = (Path(__file__).parent.parent.parent / "CONTRIBUTING.md").read_text()
    code = next(b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "STUDY =" in b)
    names: dict = {
        "Claim": Claim,
        "Faster": Faster,
        "Study": Study,
        "draw_times": figures.draw_tickets,
        "settings": settings,
    }
    exec(code, names)
    study = names["STUDY"]
    planned = plan([study], "laptop")
    assert {item.arm for item in planned} == {"dense", "wide"}
    assert all(claim.test.describe() for claim in study.claims)
    shared = {item.spec.id for item in plan(PAPER.studies, "laptop")}
    assert all(i.spec.id in shared for i in planned if i.arm == "dense")


def test_studies_by_name_and_number():
    names = [study.name for study in PAPER.select(["3", "Figure3", "map"])]
    assert names == ["acceleration", "threshold", "map"]
    assert [s.name for s in PAPER.select(["theory"])] == ["theory"]
    everything = (*PAPER.studies, *PAPER.annexes)
    assert PAPER.select([]) == everything
    assert {*PAPER.select(["main"]), *PAPER.select(["appendix"])} == set(everything)
    assert not any(study.appendix for study in PAPER.select(["main"]))
