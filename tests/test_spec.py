"""Specs: identity, refusal, round trips."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import grokscope as gs
from grokscope.spec import MaskSpec, fields, from_dict, from_toml, to_dict, to_toml


def test_identity_is_pinned():
    """A changed hash would orphan every stored run: new fields must default to no effect."""
    assert gs.RunSpec().id == "44136fa355b3678a"
    spec = gs.RunSpec().replace(
        **{"task.alphabet": 8, "prior.kind": "oracle", "prior.strength": 0.1, "seed": 3}
    )
    assert spec.canonical_json() == (
        '{"prior":{"kind":"oracle","strength":0.1},"seed":3,"task":{"alphabet":8}}'
    )
    assert spec.id == "6a4f0ef82839481b"


def test_defaults_are_pinned():
    """The hash leaves defaults out, so a changed default would give old names a new meaning."""
    assert to_dict(gs.RunSpec()) == {
        "task": {
            "kind": "addition",
            "modulus": 59,
            "operands": 2,
            "bits": 20,
            "blocks": 2,
            "symbols": 5,
            "rule": "",
            "fingerprint": "",
            "source": "",
            "length": 0,
            "alphabet": 1,
            "distractors": "operand",
            "positions": "fixed",
            "train_fraction": 0.5,
            "split": "plain",
            "examples": 0,
            "seed": -1,
        },
        "model": {
            "kind": "minimal",
            "attention": "softmax",
            "heads": 1,
            "width": 64,
            "hidden": 256,
            "init_scale": 1.0,
            "loss_precision": "float32",
            "loss": "cross_entropy",
            "layers": 1,
            "positions": "learned",
            "masking": "causal",
            "residual": "yes",
            "norm": "",
            "norm_kind": "layer",
            "activation": "relu",
            "readout_scale": 1.0,
            "norm_gain": "yes",
            "norm_epsilon": 1e-5,
            "init": "gaussian",
            "outputs": 0,
            "initial_outputs": "kept",
            "rule": "",
        },
        "optimiser": {
            "kind": "adamw",
            "lr": 1e-3,
            "weight_decay": 1.0,
            "beta1": 0.9,
            "beta2": 0.999,
            "epsilon": 1e-8,
            "warmup": 10,
            "clip": 1.0,
            "batch": 0,
            "warmup_from": 0.0,
            "schedule": "constant",
            "schedule_floor": 0.0,
            "vector_decay": 1.0,
            "sample_size": 0.0,
            "hessian": 1.0,
            "clip_radius": 0.0,
        },
        "prior": {
            "kind": "none",
            "strength": 1.0,
            "start": 0,
            "end": 0,
            "teacher": "",
            "teacher_view": "example",
            "rule": "",
        },
        "interventions": {
            "mlp_norm": 0.0,
            "query_key_penalty": 0.0,
            "frozen_attention": "no",
            "mask": {"kind": "none", "source": "", "keep": 0.2, "scope": "mlp", "effect": "prune"},
        },
        "training": {
            "epochs": 6000,
            "log_every": 25,
            "snapshots": 0,
            "train_threshold": 0.99,
            "test_threshold": 0.95,
            "persistence": 3,
            "structure_threshold": 0.0,
            "stop": "never",
            "stop_after": 500,
            "measures": (),
        },
        "fork": {"parent": "", "epoch": 0, "transplant": "none", "donor": ""},
        "seed": 0,
    }


def test_a_prior_without_strength_is_no_prior():
    plain = gs.RunSpec()
    assert plain.replace(**{"prior.kind": "oracle", "prior.strength": 0}).id == plain.id
    assert plain.replace(**{"prior.strength": 7.0}).id == plain.id
    assert plain.replace(**{"prior.kind": "oracle"}).id != plain.id


def test_a_frozen_teacher_counts_without_a_prior():
    frozen = {"interventions.frozen_attention": "teacher", "prior.teacher": "0123456789abcdef"}
    by_example = gs.RunSpec().replace(**frozen)
    by_position = by_example.replace(**{"prior.teacher_view": "position"})
    assert by_example.id != by_position.id


def test_every_other_field_changes_the_identity():
    base = gs.RunSpec()
    for name, value in {
        "task.kind": "subtraction",
        "task.modulus": 61,
        "model.init_scale": 2.0,
        "optimiser.lr": 2e-3,
        "training.epochs": 10,
        "interventions.mlp_norm": 3.0,
        "seed": 1,
    }.items():
        assert base.replace(**{name: value}).id != base.id, name


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task.kind": "division", "task.modulus": 15}, "prime modulus"),
        ({"task.kind": "parity", "task.operands": 30}, "more informative bits than the 20"),
        ({"task.kind": "parity", "task.split": "mirror"}, "leave task.split at plain"),
        ({"task.train_fraction": 0.0}, "between 0 and 1"),
        ({"task.train_fraction": 1.0}, "between 0 and 1"),
        ({"task.alphabet": 60}, "larger than the vocabulary"),
        ({"task.length": 2}, "need at least 3 positions"),
        ({"task.positions": "random", "task.alphabet": 4}, "not determined by the sequence"),
        ({"task.kind": "permutation", "task.symbols": 9}, "2 to 6"),
        ({"task.kind": "custom"}, "file.py:function"),
        ({"task.rule": "a.py:f"}, "only used by custom"),
        ({"task.bits": 12}, "only used by parity"),
        ({"task.modulus": 1}, "at least 2"),
        ({"task.modulus": "59"}, "a whole number"),
        ({"task.modulus": 59.0}, "a whole number"),
        ({"task.modulus": True}, "a whole number"),
        ({"model.heads": 5}, "not a multiple"),
        ({"model.attention": "sigmoid"}, "must be one of softmax, linear_relu"),
        ({"optimiser.lr": float("nan")}, "finite"),
        ({"optimiser.lr": -1.0}, "positive"),
        ({"optimiser.weight_decay": 2000.0}, "below 1"),
        ({"optimiser.beta1": 1.0}, "[0, 1)"),
        ({"optimiser.vector_decay": 1.5}, "[0, 1]."),
        ({"training.train_threshold": 1.5}, "(0, 1]."),
        ({"optimiser.batch": -1}, "0 or more"),
        ({"prior.kind": "teacher"}, "names its run"),
        ({"prior.end": 5, "prior.start": 10}, "later than prior.start"),
        ({"interventions.mask.kind": "magnitude"}, "needs interventions.mask.source"),
        ({"interventions.mask.effect": "norm"}, "needs a mask whose norm it takes"),
        ({"training.structure_threshold": 0.6}, "more than 0.5"),
        ({"training.epochs": 0}, "at least 1"),
        ({"seed": -1}, "0 or more"),
        ({"seed": 5_000_000_000}, "below 2^31"),
        ({"training.epochs": 3_000_000_000}, "below 2^31"),
        ({"prior.kind": "teacher", "prior.teacher": "abcd"}, "whole name of the run"),
        ({"task": 3}, "task must be a table"),
        ({"task": {}, "task.modulus": 7, "task.modulus.x": 1}, "given as a whole"),
    ],
)
def test_the_impossible_gets_a_sentence(changes, words):
    with pytest.raises(gs.SpecError) as refusal:
        gs.RunSpec().replace(**changes)
    assert words in str(refusal.value)
    assert str(refusal.value).endswith(".")


def test_unknown_fields_name_their_neighbours():
    with pytest.raises(gs.SpecError, match=r"task\.alphabit.*Did you mean alphabet"):
        from_dict({"task": {"alphabit": 3}})
    with pytest.raises(gs.SpecError, match=r"must be a table"):
        from_dict({"task": 3})


def test_round_trips(tmp_path):
    spec = gs.RunSpec().replace(
        **{"task.alphabet": 8, "interventions.mask.kind": "random", "seed": 2, "prior.kind": "none"}
    )
    assert from_dict(to_dict(spec)) == spec
    file = tmp_path / "spec.toml"
    file.write_text(to_toml(spec))
    assert from_toml(file) == (spec, {})


def test_toml_with_recipe_and_sweep(tmp_path):
    file = tmp_path / "sweep.toml"
    file.write_text(
        'recipe = "paper"\n[task]\nalphabet = 16\n'
        '[sweep]\nseed = [0, 1]\n"prior.strength" = [0, 0.1]\n'
    )
    spec, over = from_toml(file)
    assert (spec.task.modulus, spec.task.alphabet) == (113, 16)
    assert over == {"seed": [0, 1], "prior.strength": [0, 0.1]}
    assert len(gs.sweep(spec.replace(**{"prior.kind": "oracle"}), over)) == 4
    file.write_text("sweep = 3")
    with pytest.raises(gs.SpecError, match="sweep must be a table"):
        from_toml(file)
    file.write_text("recipe = 5")
    with pytest.raises(gs.SpecError, match="no recipe '5'"):
        from_toml(file)
    file.write_text("task = [")
    with pytest.raises(gs.SpecError, match="not valid TOML"):
        from_toml(file)
    with pytest.raises(gs.SpecError, match="Cannot read"):
        from_toml(tmp_path / "missing.toml")


def test_every_kind_that_is_trained_is_read_from_toml(tmp_path):
    file = tmp_path / "spec.toml"
    for kind in (gs.spec.InContextSpec, gs.spec.FieldSpec):
        spec = kind().replace(**{"training.epochs": 30, "optimiser.lr": 2e-3})
        file.write_text(to_toml(spec))
        assert from_toml(file) == (spec, {})
    for text, words in (
        ('kind = "observed"\nname = "a"', "your own loop trains"),
        ('kind = "incontxt"', "Did you mean incontext"),
        ("kind = [3]", "unknown kind"),
        ('kind = "fields"\nrecipe = "smoke"', "every recipe is of the kind routing"),
    ):
        file.write_text(text)
        with pytest.raises(gs.SpecError, match=words):
            from_toml(file)


def test_sweep_keeps_equal_runs_once():
    specs = gs.sweep(gs.RunSpec(), {"prior.kind": ["none", "oracle"], "prior.strength": [0, 1]})
    assert len(specs) == 2  # oracle of strength 0 is no prior
    with pytest.raises(gs.SpecError, match="has no values"):
        gs.sweep(gs.RunSpec(), {"seed": []})
    for values in (3, "oracle"):
        with pytest.raises(gs.SpecError, match=f"needs a list of values, not {values!r}"):
            gs.sweep(gs.RunSpec(), {"prior.kind": values})


def test_equal_numbers_are_the_same_run():
    """However they are written, and whichever way they come."""
    wanted = gs.RunSpec().replace(**{"optimiser.weight_decay": 0.0, "seed": 3})
    for zero, three in ((0, 3), (np.int64(0), np.int64(3)), (np.float32(0), np.array(3))):
        direct = gs.RunSpec(optimiser=gs.OptimiserSpec(weight_decay=zero), seed=three)
        replaced = gs.RunSpec().replace(**{"optimiser.weight_decay": zero, "seed": three})
        assert direct == replaced == wanted
    mask = MaskSpec(kind="random", keep=1)
    inner = gs.RunSpec(interventions=gs.InterventionSpec(mask=mask)).interventions.mask.keep
    assert isinstance(inner, float)
    swept = gs.sweep(gs.RunSpec(), {"prior.kind": ["oracle"], "prior.strength": np.array([2, 10])})
    assert [repr(spec.prior.strength) for spec in swept] == ["2.0", "10.0"]
    for wrong in (True, np.bool_(True), "1"):
        with pytest.raises(gs.SpecError, match="must be a number"):
            gs.RunSpec(optimiser=gs.OptimiserSpec(weight_decay=wrong))


def test_specs_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        gs.RunSpec().seed = 3  # type: ignore[misc]


def test_every_default_is_within_its_limits():
    """A field at its default is not checked again when a spec is made."""
    seen, sections = 0, list(gs.KINDS.values())
    for cls in sections:
        for item in dataclasses.fields(cls):
            hint = fields.field_types(cls)[item.name]
            if fields.is_section(hint):
                sections.append(hint)
            elif item.default is not dataclasses.MISSING and "only" not in item.metadata:
                fields.check(item.default, hint, item.name)
                fields._check_limits(None, item, item.default, item.name, "")
                seen += 1
    assert seen > 100


def test_recipes_are_valid_and_suggested():
    for name, (what, spec) in gs.RECIPES.items():
        assert what
        assert gs.find_recipe(name) is spec
    with pytest.raises(gs.SpecError, match="Did you mean paper"):
        gs.find_recipe("papper")
