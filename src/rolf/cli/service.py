"""``rolf serve`` and ``rolf keys``."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolf.cli.common import JSON, make_table, print_json, print_table
from rolf.errors import InvalidArgument
from rolf.extras import require

if TYPE_CHECKING:
    from rolf.experiments.storage.contract import Store

commands = typer.Typer()
keys = typer.Typer(no_args_is_help=True, help="API keys of the service.")
commands.add_typer(keys, name="keys")

DEFAULT_STORAGE = "sqlite:///rolf.db"
STORAGE = Annotated[
    str | None,
    typer.Option(
        help="sqlite:///file.db or postgresql://user@host/database.",
        show_default=f"ROLF_SERVE_STORAGE, or {DEFAULT_STORAGE}",
    ),
]


@commands.command()
def serve(
    storage: Annotated[
        str | None,
        typer.Option(
            help="sqlite:///file.db or postgresql://user@host/database.",
            show_default=DEFAULT_STORAGE,
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="0: any.", show_default="8000")
    ] = None,
    insecure_local: Annotated[
        bool | None,
        typer.Option("--insecure-local", help="No keys; for programs on this machine alone."),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="A simulated experiment to watch; nothing is kept.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with settings.", exists=True, dir_okay=False)
    ] = None,
    max_body: Annotated[
        int | None, typer.Option(help="Bytes of a request.", show_default="8000000")
    ] = None,
    max_batch: Annotated[
        int | None,
        typer.Option(help="Decisions, rewards or arms of a request.", show_default="1000"),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Requests per second and key; 0: any number.", show_default="1000"),
    ] = None,
    burst: Annotated[
        int | None, typer.Option(help="Requests of a key at once.", show_default="2000")
    ] = None,
    receive_timeout: Annotated[
        float | None,
        typer.Option(help="Seconds for a client to send or read.", show_default="20"),
    ] = None,
    keep_alive: Annotated[
        float | None, typer.Option(help="Seconds of an idle connection.", show_default="30")
    ] = None,
    max_connections: Annotated[
        int | None, typer.Option(help="Connections at a time.", show_default="1000")
    ] = None,
    storage_timeout: Annotated[
        float | None,
        typer.Option(help="Seconds to wait for the database.", show_default="10"),
    ] = None,
    max_open: Annotated[
        int | None, typer.Option(help="Experiments in memory.", show_default="200")
    ] = None,
    drain: Annotated[
        float | None,
        typer.Option(help="Seconds to go on after the signal to end.", show_default="0"),
    ] = None,
    shutdown_grace: Annotated[
        float | None,
        typer.Option(help="Seconds for requests in flight at the end.", show_default="20"),
    ] = None,
    public_metrics: Annotated[
        bool | None, typer.Option("--public-metrics", help="/metrics without a key.")
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(help="debug, info, warning or error.", show_default="info"),
    ] = None,
) -> None:
    """Serve decisions over HTTP, and a page to watch them.

    Every setting can also be given as a variable, ROLF_SERVE_PORT for instance, or in a file;
    options come first, then variables, then the file.
    """
    for module in ("fastapi", "uvicorn", "prometheus_client", "scipy"):
        require(module, "rolf serve")
    from rolf.experiments.storage.urls import shown
    from rolf.service.server import serve as run
    from rolf.service.settings import load

    given = {
        "storage": storage,
        "host": host,
        "port": port,
        "insecure_local": insecure_local,
        "max_body": max_body,
        "max_batch": max_batch,
        "rate": rate,
        "burst": burst,
        "receive_timeout": receive_timeout,
        "keep_alive": keep_alive,
        "max_connections": max_connections,
        "storage_timeout": storage_timeout,
        "max_open": max_open,
        "drain": drain,
        "shutdown_grace": shutdown_grace,
        "public_metrics": public_metrics,
        "log_level": log_level,
    }
    if demo and storage is not None:
        raise InvalidArgument(
            "--storage", shown(storage), "nothing: --demo has a database of its own"
        )
    run(load(given, config), lambda url: typer.echo(f"serving: {url}"), demo=demo)


@keys.command("new")
def new_key(
    scope: Annotated[str, typer.Option(help="read, decide or admin.")],
    storage: STORAGE = None,
    experiment: Annotated[
        str | None, typer.Option(help="The only experiment that the key is for.")
    ] = None,
    note: Annotated[str, typer.Option(help="What the key is for.")] = "",
    as_json: JSON = False,
) -> None:
    """Make an API key, and print it as the last word. It cannot be shown again."""
    from rolf.experiments.storage.urls import connect
    from rolf.service.auth import new_key as make

    text, key = make(scope, experiment, note)
    with closing(connect(_chosen(storage))) as store:
        store.add_key(key)
    if as_json:
        print_json({"id": key.id, "scope": scope, "experiment": experiment, "key": text})
        return
    only = "" if experiment is None else f", for {experiment}"
    typer.echo(f"created: {key.id}, {scope}{only}; the key, which is not shown again: {text}")


@keys.command("list")
def list_keys(storage: STORAGE = None, as_json: JSON = False) -> None:
    """Show all keys, without their secrets."""
    with closing(_existing(storage)) as store:
        found = store.keys()
    if as_json:
        print_json([{k: v for k, v in key._asdict().items() if k != "digest"} for key in found])
        return
    header = ["id", "scope", "experiment", "note", "created", "revoked"]
    rows = [
        [
            key.id,
            key.scope,
            "all" if key.experiment is None else key.experiment,
            key.note,
            _date(key.created),
            _date(key.revoked),
        ]
        for key in found
    ]
    print_table(make_table(header, rows, text=header))


@keys.command("revoke")
def revoke_key(
    id: Annotated[str, typer.Argument(help="The id of the key, or the key itself.")],
    storage: STORAGE = None,
) -> None:
    """Revoke a key: from now on it is refused, by all instances."""
    from rolf.service.auth import FORM

    form = FORM.fullmatch(id)
    id = form[1] if form else id
    with closing(_existing(storage)) as store:
        known = store.revoke_key(id, time.time())
    if not known:
        raise InvalidArgument("id", id, "the id of a key; rolf keys list shows them")
    typer.echo(f"revoked: {id}")


def _chosen(storage: str | None) -> str:
    """The database that ``rolf serve`` would use."""
    from rolf.service.settings import load

    return load({"storage": storage}).storage


def _existing(storage: str | None) -> Store:
    from rolf.experiments.storage.urls import connect_existing, shown

    url = _chosen(storage)
    store = connect_existing(url)
    if store is None:
        raise InvalidArgument("--storage", shown(url), "a database that exists")
    return store


def _date(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
