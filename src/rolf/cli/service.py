"""``rolf serve`` and ``rolf keys``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolf.cli.common import JSON, make_table, print_json, print_table
from rolf.errors import InvalidArgument
from rolf.extras import require
from rolf.service.settings import Settings, load

if TYPE_CHECKING:
    from rolf.experiments.storage.contract import Store

commands = typer.Typer()
keys = typer.Typer(no_args_is_help=True, help="API keys of the service.")
commands.add_typer(keys, name="keys")

STORAGE = Annotated[
    str | None,
    typer.Option(
        help="The service's database; by default the one rolf serve uses without --config.",
        show_default=False,
    ),
]
DEMO = Annotated[
    bool, typer.Option("--demo", help="Run a simulated experiment to watch; nothing is kept.")
]
CONFIG = Annotated[
    Path | None, typer.Option(help="A TOML file with settings.", exists=True, dir_okay=False)
]


def serve(demo: bool, config: Path | None, **settings: Any) -> None:
    """Serve decisions over HTTP, with a web page to watch them.

    Settings can also come from environment variables (such as ROLF_SERVE_PORT) or a file. Options
    take precedence over variables, variables over the file.
    """
    for module in ("fastapi", "uvicorn", "prometheus_client", "scipy"):
        require(module, "rolf serve")
    from rolf.experiments.storage.urls import shown
    from rolf.service.server import serve as run

    if demo and settings["storage"] is not None:
        raise InvalidArgument(
            "--storage", shown(settings["storage"]), "no database: --demo uses its own"
        )
    run(load(settings, config), lambda url: typer.echo(f"serving: {url}"), demo=demo)


def _options() -> Iterator[Parameter]:
    """The options of ``rolf serve``: one per setting, then --demo and --config."""
    for each in fields(Settings):
        default: Any = each.default
        kind: Any = type(default)
        shown = f"{default:g}" if kind is float else str(default)
        option = typer.Option(
            f"--{each.name.replace('_', '-')}",
            help=each.metadata["help"],
            show_default=False if kind is bool else shown,
        )
        annotation = Annotated[kind | None, option]
        yield Parameter(each.name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    yield Parameter("demo", Parameter.KEYWORD_ONLY, default=False, annotation=DEMO)
    yield Parameter("config", Parameter.KEYWORD_ONLY, default=None, annotation=CONFIG)


serve.__signature__ = Signature(list(_options()))  # type: ignore[attr-defined]
commands.command()(serve)


@keys.command("new")
def new_key(
    scope: Annotated[str, typer.Option(help="read, decide or admin.")],
    storage: STORAGE = None,
    experiment: Annotated[
        str | None, typer.Option(help="Restrict the key to this experiment.")
    ] = None,
    note: Annotated[str, typer.Option(help="What the key is for.")] = "",
    as_json: JSON = False,
) -> None:
    """Create an API key and print it as the last word. It cannot be shown again."""
    from rolf.experiments.storage.urls import connect
    from rolf.service.auth import new_key as make

    text, key = make(scope, experiment, note)
    with closing(connect(_chosen(storage))) as store:
        store.add_key(key)
    if as_json:
        print_json({"id": key.id, "scope": scope, "experiment": experiment, "key": text})
        return
    only = "" if experiment is None else f", for {experiment}"
    typer.echo(f"created: {key.id}, {scope}{only}; the key, shown only once: {text}")


@keys.command("list")
def list_keys(storage: STORAGE = None, as_json: JSON = False) -> None:
    """Show all keys, without their secrets."""
    with closing(_existing(storage)) as store:
        listed = store.keys()
    if as_json:
        print_json([{k: v for k, v in key._asdict().items() if k != "digest"} for key in listed])
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
        for key in listed
    ]
    print_table(make_table(header, rows, text=header))


@keys.command("revoke")
def revoke_key(
    id: Annotated[str, typer.Argument(help="The id of the key, or the key itself.")],
    storage: STORAGE = None,
) -> None:
    """Revoke a key; all instances refuse it from now on."""
    from rolf.service.auth import key_id

    id = key_id(id)
    with closing(_existing(storage)) as store:
        revoked = store.revoke_key(id, time.time())
    if not revoked:
        raise InvalidArgument("id", id, "the id of an existing key; see rolf keys list")
    typer.echo(f"revoked: {id}")


def _chosen(storage: str | None) -> str:
    """The database that ``rolf serve`` would use."""
    return load({"storage": storage}).storage


def _existing(storage: str | None) -> Store:
    from rolf.experiments.storage.urls import connect_existing, shown

    url = _chosen(storage)
    store = connect_existing(url)
    if store is None:
        raise InvalidArgument("--storage", shown(url), "an existing database")
    return store


def _date(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
