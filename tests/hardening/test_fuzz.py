"""A thousand cases of the fuzzer, the same ones every time."""

from __future__ import annotations

from hardening.fuzz import run_cases


def test_a_thousand_cases(tmp_path):
    assert run_cases(1000, 0, tmp_path) == []
