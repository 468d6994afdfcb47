"""No message, and no part of a traceback, repeats a password."""

from __future__ import annotations

import traceback

import pytest

import rolf
from rolf.errors import RolfError
from rolf.experiments.database import Database
from rolf.experiments.storage.urls import shown

SECRET = "s3cret"
URLS = [
    "postgresq://bob:s3cret@host/db",
    "postgresql:/bob:s3cret@host/db",
    "postgresql:bob:s3cret@host/db",
    "bob:s3cret@host/db",
    "postgresql//bob:s3cret@host/db",
    "Postgresql://bob:s3cret@host/db",
    "mysql+pymysql://bob:s3cret@host/db",
    "sqlite://bob:s3cret@host/db",
    "sqlite:bob:s3cret@host/db",
    "host=127.0.0.1 port=1 user=bob password=s3cret",
    "password=s3cret",
    "postgresql://bob:s3cret@[bad/db",
    "postgresql://bob:p@s3cret@127.0.0.1:1/db",
    "postgresql://bob:s3cret@x@127.0.0.1:1/db",
    "postgresql://bob:p/s3cret@127.0.0.1:1/db",
    "postgresql://bob:p?s3cret@127.0.0.1:1/db",
    "postgresql://bob:p#s3cret@127.0.0.1:1/db",
    "postgresql://bob:s3cret%@127.0.0.1:1/db",
    "postgresql://bob:s3cret%zz@127.0.0.1:1/db",
    "postgresql://bob:%s3cret@127.0.0.1:1/db",
    "postgresql://bob:my s3cret@127.0.0.1:1/db",
    "postgresql://bob:s3cret\n@127.0.0.1:1/db",
    "postgresql://bob:s3cret\0@127.0.0.1:1/db",
    "postgresql://bob:s3cret@127.0.0.1:1:2/db",
    "postgresql://bob:s3cret@127.0.0.1:port/db",
    "postgresql://bob:s3cret@127.0.0.1:1/db",
    "postgresql://127.0.0.1:1/db?user=bob&password=s3cret",
    "postgresql://127.0.0.1:1/db?password=s3cret&nonsense=1",
    "postgresql://127.0.0.1:1/db?pasword=s3cret",
    "postgresql://127.0.0.1:1/db?password=a@s3cret",
    "postgresql://127.0.0.1:1/db?password=s3cret%",
    "postgresql://127.0.0.1:1/db?sslpassword=s3cret",
    "postgresql://s3cret:1/db:s3cret@127.0.0.1",
    "postgresql://bob:s3cret",
    "postgresql://bob:s3cret/db",
    b"postgresql://bob:s3cret@127.0.0.1:1/db",
    ["postgresql://bob:s3cret@127.0.0.1:1/db"],
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "call", [lambda url: Database(url).names(), lambda url: rolf.open_experiment(url, "x")]
)
def test_a_password_is_not_repeated(url, call):
    with pytest.raises(RolfError) as caught:
        call(url)
    told = "".join(traceback.format_exception(caught.value)).split("raise ")
    source_lines = {line.strip() for line in "".join(told).splitlines()}
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)
    assert SECRET not in repr(caught.value.__dict__)
    assert not [line for line in source_lines if SECRET in line]
    for chained in (caught.value.__cause__, caught.value.__context__):
        if chained is not None and not caught.value.__suppress_context__:
            assert SECRET not in str(chained)


def test_what_is_shown_of_a_url():
    assert shown("file.db") == "file.db"
    assert shown("sqlite:/x y/b.db") == "sqlite:/x y/b.db"
    assert shown("mysql://a:b@c/d") == "mysql:..."
    assert shown(3) == 3
    assert shown(b"x") == "bytes"


def test_the_hint_says_what_to_escape():
    with pytest.raises(RolfError, match="p%40ss"):
        Database("postgresql://bob:p@ss@host/db").names()


URL = "postgresql://bob:s3cret@host/db"


@pytest.mark.parametrize(
    "call",
    [
        lambda: rolf.connect("memory://").restore(URL),
        lambda: rolf.connect("memory://").backup(URL),
        lambda: rolf.open_experiment("memory://", " " + URL, features=[[1.0], [2.0]]),
        lambda: rolf.open_experiment("memory://", "x", features=URL),
        lambda: rolf.open_experiment("memory://", "x", features=[[1.0], [2.0]], policy=URL),
        lambda: rolf.open_experiment("memory://", "x", timeout=URL),
        lambda: rolf.open_experiment("memory://", URL),
        lambda: rolf.open_experiment(f"sqlite:///{URL}", "x", features=[[1.0], [2.0]]),
    ],
)
def test_a_url_in_the_wrong_place_is_not_repeated(call):
    with pytest.raises(RolfError) as caught:
        call()
    assert SECRET not in str(caught.value)


def test_a_url_in_a_variable_is_not_repeated(monkeypatch):
    monkeypatch.setenv("ROLF_STORAGE_TIMEOUT", URL)
    with pytest.raises(RolfError, match="postgresql:\\.\\.\\.") as caught:
        rolf.open_experiment("memory://", "x")
    assert SECRET not in str(caught.value)
