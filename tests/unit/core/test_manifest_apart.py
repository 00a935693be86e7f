"""Parameters whose values a suite keeps apart."""

from __future__ import annotations

from rentbench.core.documents import read_toml
from rentbench.core.manifest_rules import manifest_problems
from rentbench.core.manifests import read_suite
from support.results import REPOSITORY

GEMM = REPOSITORY / "suites" / "gemm" / "suite.toml"


def test_gemm_keeps_its_states_apart() -> None:
    assert read_suite(GEMM).apart == {"state"}


def test_settings_cannot_be_kept_apart() -> None:
    content = read_toml(GEMM)
    content["parameters"]["iterations"]["apart"] = True
    assert [problem.pointer for problem in manifest_problems(content, "suite")] == [
        "/parameters/iterations/apart"
    ]
