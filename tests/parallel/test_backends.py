"""Independent tasks on every backend: the same results, errors and guarantees."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import rolf.parallel
from rolf.errors import InvalidArgument, MissingExtra, RolfError
from rolf.parallel import clusters, completed

CLUSTERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("dask", "ray")]
PROCESSES = ["local", *CLUSTERS]
EVERYWHERE = ["threads", *PROCESSES]


@pytest.fixture(scope="module", autouse=True)
def clusters_end():
    yield
    rolf.parallel.shutdown()


def draw(seed):
    return np.random.default_rng(seed).standard_normal(50).cumsum()


@pytest.mark.parametrize("backend", EVERYWHERE)
def test_every_task_has_its_result_bit_for_bit(backend):
    got = dict(completed(draw, range(60), backend=backend, jobs=2))
    assert sorted(got) == list(range(60))
    assert all((got[seed] == draw(seed)).all() for seed in got)
    assert list(completed(draw, [], backend=backend)) == []
    ((index, only),) = completed(draw, [7], backend=backend, jobs=2)
    assert index == 0
    assert (only == draw(7)).all()


@pytest.mark.parametrize("backend", PROCESSES)
def test_functions_and_classes_of_a_notebook_can_be_sent(backend):
    factor = 3

    class Scaled:
        def __init__(self, value):
            self.value = factor * value

    results = completed(lambda x: Scaled(x).value, range(5), backend=backend, jobs=2)
    assert dict(results) == {x: 3 * x for x in range(5)}


def kill_once(task):
    """Kill the worker of one task, the first time."""
    folder, number = task
    if number == 5:
        try:
            (folder / "killed").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return draw(number)


@pytest.mark.parametrize("backend", PROCESSES)
def test_a_task_whose_worker_is_killed_is_retried(backend, tmp_path):
    tasks = [(tmp_path, number) for number in range(30)]
    got = dict(completed(kill_once, tasks, backend=backend, jobs=2))
    assert (tmp_path / "killed").exists()
    assert sorted(got) == list(range(30))
    assert all((got[number] == draw(number)).all() for number in got)


def always_kill(task):
    if task == 3:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    return task


@pytest.mark.parametrize("backend", PROCESSES)
def test_a_task_that_always_kills_its_worker_is_given_up(backend):
    with pytest.raises(RolfError, match="workers died 4 times running the same task"):
        list(completed(always_kill, range(8), backend=backend, jobs=2))


class Unusual(Exception):
    """Cannot be pickled."""

    def __init__(self, first, second):
        super().__init__(first)
        self.lock = threading.Lock()


def fail(task):
    if task == 2:
        raise InvalidArgument("task", task, "any other")
    if task == 9:
        raise Unusual("a lock", 1)
    return task


@pytest.mark.parametrize("backend", EVERYWHERE)
def test_an_error_in_a_task_reaches_the_caller(backend):
    with pytest.raises(InvalidArgument, match="task: got 2, wanted any other") as caught:
        list(completed(fail, range(5), backend=backend, jobs=2))
    if backend != "threads":
        assert "in fail" in str(caught.value.__cause__)
    with pytest.raises((RolfError, Unusual), match="a lock"):
        list(completed(fail, [9], backend=backend, jobs=2))


@pytest.mark.parametrize("backend", EVERYWHERE)
def test_closing_does_not_wait_for_running_tasks(backend):
    results = completed(time.sleep, [0.0, *[3.0] * 5], backend=backend, jobs=2)
    assert next(results) == (0, None)
    started = time.perf_counter()
    results.close()
    assert time.perf_counter() - started < 2.0
    assert dict(completed(abs, [-1], backend=backend, jobs=2)) == {0: 1}


@pytest.mark.parametrize("backend", PROCESSES)
def test_an_error_names_what_cannot_be_pickled(backend):
    lock = threading.Lock()
    with pytest.raises(InvalidArgument, match=r"function: .* can be pickled"):
        list(completed(lambda x: lock, [1], backend=backend, jobs=2))
    with pytest.raises(InvalidArgument, match=r"tasks\[1\]: .* can be pickled"):
        list(completed(abs, [1, lock], backend=backend, jobs=2))


def test_an_error_names_what_a_worker_cannot_import(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here

    list(completed(abs, [1, 2], jobs=2))  # the workers start with the path as it is
    (tmp_path / "only_here.py").unlink()
    with pytest.raises(RolfError, match=r"a worker cannot load its task .*only_here"):
        list(completed(only_here.double, [1, 2], jobs=2))
    sys.modules.pop("only_here")


def threads_of_libraries(task):
    import numba
    import threadpoolctl

    np.ones((2, 2)) @ np.ones((2, 2))
    return max(
        [numba.get_num_threads(), *(p["num_threads"] for p in threadpoolctl.threadpool_info())]
    )


@pytest.mark.parametrize("backend", PROCESSES)
def test_libraries_have_one_thread_in_a_worker(backend):
    seen = dict(completed(threads_of_libraries, range(4), backend=backend, jobs=2))
    assert set(seen.values()) == {1}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"backend": "spark"},
            'backend: got \'spark\', wanted "local", "threads", "dask" or "ray"',
        ),
        ({"jobs": 0}, "jobs"),
        ({"address": "host:1"}, "address: .* is this machine"),
        ({"backend": "dask", "address": ""}, "address"),
        ({"backend": "ray", "address": 3}, "address"),
    ],
)
def test_invalid_arguments_are_refused_immediately(arguments, expected):
    with pytest.raises(InvalidArgument, match=expected):
        completed(abs, [1], **arguments)


@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_extra_is_named(backend, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"needs .*rolf-bandits\[cluster\]"):
        list(completed(abs, [1], backend=backend))


@pytest.mark.parametrize("backend", CLUSTERS)
def test_an_address_without_a_server_is_an_error_soon(backend, monkeypatch):
    monkeypatch.setattr(clusters, "PATIENCE", 1.0)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(InvalidArgument, match=r"address: .* answers within 1 sec.*refused"):
            list(completed(abs, [1], backend=backend, address=address))
    with pytest.raises(InvalidArgument, match="address: got 'nonsense'"):
        list(completed(abs, [1], backend=backend, address="nonsense"))


def test_an_unrelated_server_is_an_error_soon(monkeypatch):
    monkeypatch.setattr(clusters, "PATIENCE", 0.2)
    with pytest.raises(TimeoutError):
        clusters._soon(lambda: time.sleep(2.0))


def test_an_interrupt_stops_immediately_and_leaves_no_process():
    code = """
import time, os
from rolf.parallel import completed
for _, pid in completed(lambda t: (time.sleep(t), os.getpid())[1], [0.0] + [30.0] * 3, jobs=2):
    print(pid, flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        worker = int(process.stdout.readline())
        started = time.perf_counter()
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert time.perf_counter() - started < 5.0
    assert process.returncode != 0
    assert "KeyboardInterrupt" in errors
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
