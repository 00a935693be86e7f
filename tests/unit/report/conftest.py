"""Resources with the report's own test suites, for every test of this folder."""

from __future__ import annotations

import pytest

from fixtures.report.sites import resources
from rentbench.core.manifests import load_suites


@pytest.fixture(scope="package", autouse=True)
def _resources(tmp_path_factory):
    with resources(tmp_path_factory.mktemp("resources")):
        yield


@pytest.fixture
def gemm(_resources):
    return load_suites()["gemm"]


@pytest.fixture
def preflight(_resources):
    return load_suites()["preflight"]
