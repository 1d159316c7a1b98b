"""Who teaches whom in figures 6 and 7, and how far a target is from the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from test_figures import evidence_of, make_up, words

import grokscope as gs
from grokscope.engine.planning import in_order
from grokscope.papers.structural_inference import priors
from grokscope.papers.structural_inference.figures import TEACHING, draw_priors
from grokscope.papers.structural_inference.settings import settings

SETTINGS = {setting.regime: setting for setting in settings("laptop")}


@pytest.mark.parametrize("regime", SETTINGS)
def test_teachers_have_no_help_and_come_first(regime):
    arms = priors.arms(SETTINGS[regime], 3)
    taught = {name: spec for name, spec in arms.items() if spec.prior.kind == "teacher"}
    assert taught
    for name, spec in taught.items():
        teacher = arms[f"{TEACHING}{name}"]
        assert spec.prior.teacher == teacher.id
        assert teacher.prior.kind == "none"
        foreign = teacher.task.modulus != 43 or (teacher.task.alphabet == 1 != spec.task.alphabet)
        assert (spec.prior.teacher_view == "position") == foreign
    first, *_ = in_order(list(arms.values()))
    assert {spec.prior.teacher for spec in taught.values()} <= {spec.id for spec in first}


def test_each_arm_differs_as_its_name_says():
    arms = priors.arms(SETTINGS["bottleneck"], 4)
    assert arms[f"{TEACHING}{priors.OTHER_SEED}"].seed == 0
    assert arms[f"{TEACHING}{priors.OTHER_WIDTH}"].model.width == 32
    assert arms[priors.OTHER_WIDTH].model.width == 64
    assert arms[priors.LATE].prior.start == 650
    assert arms[priors.FADING].prior.end == 500
    assert {spec.seed for name, spec in arms.items() if not name.startswith(TEACHING)} == {4}


def test_the_error_of_a_target(store, tiny):
    """KL from the oracle by hand: a teacher's from its attention, an inferred one's is 0."""
    base = tiny.replace(**{"task.alphabet": 4, "training.epochs": 10})
    (teacher,) = gs.train(base, store, processes=1)
    taught = base.replace(**{"prior.kind": "teacher", "prior.teacher": teacher.id})
    inferred = base.replace(**{"prior.kind": "inferred"})
    pupil, reader = gs.train([taught, inferred], store, processes=1)
    assert priors.summarise(teacher) == {}
    assert priors.summarise(reader)["target_error"] == pytest.approx(0, abs=1e-6)
    # Ten epochs leave attention nearly uniform over five positions: half of log(0.5 / 0.2) twice.
    error = priors.summarise(pupil)["target_error"]
    assert error == pytest.approx(teacher.curve["divergence_train"][-1], rel=1e-4)
    assert error == pytest.approx(np.log(2.5), abs=0.1)


def test_the_figure_leaves_out_who_only_teaches():
    panels = draw_priors(evidence_of("priors", "laptop"))
    assert [panel.title for panel in panels] == ["constant", "bottleneck", "noise"]
    for panel in panels:
        assert TEACHING not in words(panel.chart)
        assert priors.INFERRED in words(panel.chart)


def test_the_reading_counts_teachers_and_waits():
    def made(item):
        teaches = item.arm.startswith(TEACHING)
        late = None if item.arm == priors.LATER else 1000
        return {**make_up(item.spec, 300 if teaches else late), "target_error": 0.0}

    text = priors.read(evidence_of("priors", "laptop", made))
    assert "half the width 3 of 3 (D 0)" in text
    assert "the inferred target is the oracle's in 3 of 3 runs" in text
    assert "850 (from 150), 350 (from 650), never (from 1,650)" in text
