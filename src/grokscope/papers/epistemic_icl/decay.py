"""Beyond the paper: is it the method, or the decay that comes with it?"""

from __future__ import annotations

from grokscope.claims.evidence import Evidence
from grokscope.claims.judgements import Level, Share
from grokscope.claims.studies import Comparison, Setting
from grokscope.draw.words import count_reached
from grokscope.papers.epistemic_icl import settings
from grokscope.papers.epistemic_icl.judgements import OverArms
from grokscope.papers.epistemic_icl.settings import ADAMW, IVON, QUESTIONS, Asked, Question
from grokscope.spec import InContextSpec

SHRUNK = "IVON, AdamW's decay at first"
KEPT = "AdamW, no decay"
WEAK, WEAKER = "AdamW, a tenth of its decay", "IVON, a tenth of AdamW's decay"
OTHER = "IVON, ten times its decay"  # the paper's other value: its table and its text disagree
PAIRS = {  # who is compared, and how
    "at a decay that is equal at first": (ADAMW, SHRUNK),
    "at a tenth of that": (WEAK, WEAKER),
    "where neither decays": (KEPT, IVON),
}


def decay_arms(setting: Setting, seed: int) -> dict[str, InContextSpec]:
    """The paper's methods differ a millionfold in decay: here each is tried with the other's. Per
    step AdamW's weights shrink by lr decay, IVON's by lr_ivon (h0 + delta) delta / (h + delta).
    These are equal only at first, while h is near h0 = 1: h falls about like beta2^t (to e^-2 by
    the end), so that IVON then shrinks its weights 7.3 times as fast, and 2.2 times over the whole
    schedule. IVON also decays the gains of norms, AdamW does not."""
    plain = setting.baseline(seed)
    ivon = settings.by_ivon(plain)
    decay, delta = (each.optimiser.weight_decay for each in (plain, ivon))
    alike = plain.optimiser.lr * decay / ivon.optimiser.lr
    decays = {
        ADAMW: (plain, decay),
        WEAK: (plain, decay / 10),
        KEPT: (plain, 0.0),
        IVON: (ivon, delta),
        OTHER: (ivon, 10 * delta),
        WEAKER: (ivon, alike / 10),
        SHRUNK: (ivon, alike),
    }
    return {n: spec.replace(**{"optimiser.weight_decay": d}) for n, (spec, d) in decays.items()}


def _list_decays(evidence: Evidence) -> Comparison:
    cells = ("both new", "new tasks")
    headings = [f"{what}, {cell}" for what in ("generalise", "accuracy") for cell in cells]
    rows = []
    for sample in evidence.samples.values():
        for arm in sample.arms.values():
            found = [count_reached(arm.rows, each.event.column) for each in QUESTIONS]
            right = [arm.median(f"{each.cell}_final_accuracy") for each in QUESTIONS]
            found += [f"{share:.2f}" if arm.finished.any() else "not run" for share in right]
            rows.append((arm.name, f"{arm.spec.optimiser.weight_decay:g}", *found))
    return Comparison(("arm", "decay", *headings), tuple(rows))


def ask(question: Question) -> Asked:
    column, effect = f"{question.cell}_final_accuracy", "accuracy"
    yield "AdamW needs no decay", "", Share(KEPT, "most", event=question.event)
    for how, (adamw, ivon) in PAIRS.items():
        ahead = Level(adamw, column, effect, low=0.02, reference=ivon)
        yield f"AdamW is ahead {how}", "", ahead
    best = OverArms(column, effect, least=0.02, best=True)
    yield "AdamW is ahead at the best decays", "", best


# How much faster IVON's weights shrink at the end.
TIMES = {"TIMES": f"{1 / settings.kept_hessian(settings.by_ivon(settings.base('laptop'))):.1f}"}
STUDY = settings.study("decay", ask, arms=decay_arms, table=_list_decays, numbers=TIMES)
