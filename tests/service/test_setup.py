"""Setting up a service: every setting as a flag, first keys, and experiments from elsewhere."""

from __future__ import annotations

from dataclasses import fields
from urllib.parse import quote

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from rolf.cli import app
from rolf.errors import InvalidArgument
from rolf.experiments.storage.urls import connect
from rolf.service.settings import Settings
from rolf.testing.storage import create_experiment
from support.commands import invoke
from support.served import Process, make_key, problem, service
from support.stores import make_url


def test_every_setting_has_a_flag():
    flags = {name for each in get_command(app).commands["serve"].params for name in each.opts}
    assert {f"--{field.name.replace('_', '-')}" for field in fields(Settings)} <= flags


@pytest.mark.parametrize(
    "name", ["receive-timeout", "keep-alive", "storage-timeout", "max-connections", "max-open"]
)
def test_flags_reach_the_settings(name):
    result = CliRunner().invoke(app, ["serve", "--port", "0", f"--{name}", "0"])
    assert isinstance(result.exception, InvalidArgument)
    assert name.replace("-", "_") in str(result.exception)


def test_keys_are_kept_where_the_service_looks_for_them(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/x.db"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROLF_SERVE_STORAGE", url)
    assert invoke("keys", "new", "--scope", "read").exit_code == 0
    assert len(connect(url).keys()) == 1
    monkeypatch.setenv("ROLF_SERVE_STORAGE", "")  # rolf serve does not start with it, either
    for command in (["keys", "new", "--scope", "read"], ["keys", "list"], ["serve"]):
        assert isinstance(invoke(*command).exception, InvalidArgument)
    assert [path.name for path in tmp_path.glob("*.db")] == ["x.db"]


def test_a_service_without_keys_says_how_to_make_one(tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    for found in (1, 0):
        with Process("--storage", url) as process:
            said = [line["message"] for line in process.lines() if line["event"] == "no keys"]
        assert len(said) == found
        assert all(f"rolf keys new --scope admin --storage {url}" in each for each in said)
        make_key(url)


def test_a_key_for_one_experiment_does_not_read_the_metrics_of_all():
    url = make_url("sqlite")
    with service(url=url) as client:
        client.make()
        problem(client.as_(make_key(url, "admin", "one")).get("/metrics"), 403, "forbidden")
        assert client.as_(make_key(url, "read")).get("/metrics").status_code == 200
    with service(url=url, public_metrics=True) as client:
        assert client.as_(make_key(url, "read", "one")).get("/metrics").status_code == 200


def test_experiments_with_names_that_cannot_be_given_over_http():
    url = make_url("sqlite")
    names = ["a/b", "a\\b", "café 100% (new)"]
    for name in names:
        create_experiment(url, name, policy="ucb").close()
    with service(url=url) as client:
        listed = client.get("/v1/experiments").json()["experiments"]
        assert [each["name"] for each in listed] == sorted(names)
        usable = [
            name
            for name in names
            if client.post(f"/v1/experiments/{quote(name, safe='')}/ask", json={}).is_success
        ]
    assert usable == names[2:]
