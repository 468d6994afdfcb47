"""Statements sent through psycopg's wrapper of libpq, without cursors, at half their cost.

Used for the statements behind every decision and every reward. Values travel as text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import psycopg


Wire: TypeAlias = Sequence[Any]  # the values of a row as received: bytes, or None


def _flag(text: bytes) -> bool:
    return text == b"t"


#: how to read the columns of a row of the log, and the number that follows them
LOADERS: tuple[Callable[[bytes], Any], ...] = (
    int,
    int,
    int,
    float,
    int,
    float,
    int,
    int,
    _flag,
    int,
    bytes.decode,
    float,
    int,
)


def call(connection: psycopg.Connection[Any], name: str, values: Sequence[Any]) -> list[Wire]:
    """Execute a prepared statement."""
    texts: list[Any] = [None if value is None else str(value).encode() for value in values]
    return _rows(connection.pgconn.exec_prepared(name.encode(), texts))


def script(connection: psycopg.Connection[Any], statements: str) -> list[list[Wire]]:
    """Execute several statements that are sent together; returns the rows of each."""
    from psycopg.generators import execute

    connection.pgconn.send_query(statements.encode())
    # Other threads keep running while this one waits, perhaps for one of them.
    return [_rows(result) for result in connection.wait(execute(connection.pgconn))]


def log_row(values: Wire) -> tuple[Any, ...]:
    """A row of the log, and the number that follows it."""
    return tuple(
        None if value is None else load(value) for load, value in zip(LOADERS, values, strict=True)
    )


def literal(connection: psycopg.Connection[Any], value: Any) -> str:
    """A value as part of a statement."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        from psycopg.pq import Escaping

        return bytes(Escaping(connection.pgconn).escape_literal(value.encode())).decode()
    return repr(value)


def _rows(result: Any) -> list[Wire]:
    from psycopg import OperationalError
    from psycopg.errors import error_from_result
    from psycopg.pq import DiagnosticField, ExecStatus

    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        if result.error_field(DiagnosticField.SQLSTATE) is None:  # not from the server
            raise OperationalError(result.error_message.decode(errors="replace"))
        raise error_from_result(result)
    return [
        [result.get_value(row, column) for column in range(result.nfields)]
        for row in range(result.ntuples)
    ]
