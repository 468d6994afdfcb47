"""Local and remote forms of experiments and databases have the same methods and signatures."""

from __future__ import annotations

import asyncio
import inspect
import uuid

import pytest

import rolf
from rolf.client.database import RemoteDatabase
from rolf.errors import InvalidArgument, ServiceError, UnknownExperiment
from rolf.experiments.protocol import METHODS, ExperimentProtocol

FEATURES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]]
FORMS = [rolf.Experiment, rolf.RemoteExperiment]
PROPERTIES = ("name", "policy", "arms", "paused")
DATABASE = ("create", "experiments", "delete", "backup", "restore")


def parameters(method):
    """Parameters by name, with kind, default and annotation, but for self."""
    _, *rest = inspect.signature(method).parameters.values()
    return {each.name: str(each) for each in rest}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_keeps_to_the_protocol(form):
    assert set(METHODS) | set(PROPERTIES) == {
        name for name in vars(ExperimentProtocol) if not name.startswith("_")
    }
    for name in METHODS:
        wanted, found = (
            parameters(getattr(ExperimentProtocol, name)),
            parameters(getattr(form, name)),
        )
        more = {each: text for each, text in found.items() if each not in wanted}
        assert {each: found.get(each) for each in wanted} == wanted, name
        assert all("=" in text for text in more.values()), name
        assert [each for each in found if each not in more] == list(wanted), name
        assert inspect.signature(getattr(form, name)).return_annotation in (
            inspect.signature(getattr(ExperimentProtocol, name)).return_annotation,
            "list[ArmRecord]",  # of a sequence
        )
    for name in PROPERTIES:
        assert isinstance(getattr(form, name), property)


@pytest.mark.parametrize("form", FORMS)
def test_every_method_has_a_coroutine(form):
    for name in METHODS:
        method, coroutine = getattr(form, name), getattr(form, f"a{name}")
        assert inspect.iscoroutinefunction(coroutine)
        assert coroutine.__name__ == f"a{name}"
        assert inspect.signature(coroutine) == inspect.signature(method)


def test_databases_have_the_same_signatures():
    for name in (*DATABASE, "experiment"):
        local, remote = getattr(rolf.Database, name), getattr(RemoteDatabase, name)
        assert parameters(local) == parameters(remote), name
    for form, names in ((rolf.Database, DATABASE), (RemoteDatabase, DATABASE[:3])):
        for name in names:
            assert inspect.iscoroutinefunction(getattr(form, f"a{name}"))


def test_connect_and_open_everywhere(running, tmp_path, monkeypatch):
    monkeypatch.setenv("ROLF_KEY", running.key)
    for url in (f"memory://{uuid.uuid4().hex}", f"sqlite:///{tmp_path}/x.db", running.url):
        name = f"e {uuid.uuid4().hex}"
        with rolf.connect(url) as database:
            assert name not in [each.name for each in database.experiments()]
            with pytest.raises(UnknownExperiment):
                rolf.open_experiment(url, name)
            created = database.create(name, FEATURES, policy="ucb", seed=1)
            created.tell(created.ask(), 1.0)
            pending = created.ask().id
            created.close()
            [summary] = [each for each in database.experiments() if each.name == name]
            assert summary[3:] == (False, 3, 2, 1, 1)
            again = rolf.open_experiment(url, name, FEATURES, policy="ucb", seed=1)
            assert database.experiment(name).pending().decisions[0].id == pending
            assert again.counts() == rolf.open_experiment(url, name).counts() == (2, 1)
            with pytest.raises(InvalidArgument, match="confirm"):
                database.delete(name, confirm="another")
            asyncio.run(delete(database, name))
            with pytest.raises(UnknownExperiment):
                database.experiment(name).counts()


async def delete(database, name):
    async with database:
        await database.adelete(name, confirm=name)


def test_what_fits_only_one_form_is_refused(running, tmp_path):
    service = rolf.connect(running.url, running.key)
    for call in (service.backup, service.restore):
        with pytest.raises(ServiceError, match="connect to the database"):
            call(tmp_path / "x.db")
    with pytest.raises(InvalidArgument, match="key"):
        rolf.connect("memory://", "rolf_1_2")
    with pytest.raises(InvalidArgument, match="url"):
        rolf.connect("elsewhere://x")
    with pytest.raises(InvalidArgument, match="together with features"):
        rolf.open_experiment(running.url, "one", policy="ucb")
    with pytest.raises(InvalidArgument, match="missing"):
        rolf.open_experiment(running.url, "one", FEATURES, missing="error")
