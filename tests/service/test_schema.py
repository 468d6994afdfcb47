"""The description of the API is true: Schemathesis finds no request that is answered otherwise."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from rolf.service.http.errors import KINDS
from rolf.service.settings import Settings
from support.served import ROWS, service

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    ignored_auth,
    unsupported_method,
]
assert positive_data_acceptance not in CHECKS  # what fits the form may still not fit the experiment


@pytest.fixture(scope="module")
def running():
    with service(rate=0.0) as client:
        yield client


def explore(running, mode, most):
    """Try requests that fit, or do not fit, the description of every route."""
    headers = {"Authorization": running.headers["authorization"]}
    api = schemathesis.openapi.from_url(f"{running.base_url}/openapi.json")
    tried = 0
    for found in api.get_all_operations():
        operation = found.ok()

        @examples(
            max_examples=most,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def requests(case):
            nonlocal tried
            if "name" in case.path_parameters and mode.is_positive:
                case.path_parameters["name"] = "one"
            case.call_and_validate(headers=headers, checks=CHECKS)
            tried += 1

        if running.get("/v1/experiments/one").status_code != 200:
            running.make(arms=ROWS, features=None)
        try:
            requests()
        except Unsatisfiable:  # every request to this route fits
            assert mode.is_negative
    return tried


def test_a_few_requests_to_every_route(running):
    assert explore(running, GenerationMode.NEGATIVE, 5) > 50


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_many_requests_to_every_route(running, mode):
    assert explore(running, mode, 50) > 500


def test_the_description_is_openapi_3_1(running):
    description = running.get("/openapi.json").json()
    assert description["openapi"].startswith("3.1")
    for path, operations in description["paths"].items():
        for operation in operations.values():
            assert operation["description"], path
            assert {"500", "503"} <= operation["responses"].keys()


def test_the_page_names_every_route_setting_and_problem(running):
    page = (Path(__file__).parents[2] / "docs" / "production" / "service.md").read_text()
    for path, operations in running.get("/openapi.json").json()["paths"].items():
        for method, operation in operations.items():
            if path.startswith("/v1/"):
                row = next(
                    line for line in page.splitlines() if f"`{method.upper()} {path}`" in line
                )
                assert row.endswith(f"| {operation['x-scope']} |")
            else:
                assert f"`{path}`" in page
    for slug in KINDS:
        assert f"`/problems/{slug}`" in page
    for field in fields(Settings):
        assert f"`{field.name}`" in page
        if type(field.default) is str:
            assert f"`{field.default}`" in page
        elif type(field.default) in (int, float) and field.name != "port":
            assert f"{int(field.default):,}" in page
