"""Statements of a paper as code: studies, evidence, tests, verdicts. Knows no paper."""
