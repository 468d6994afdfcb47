"""API keys: ``rolf_<id>_<secret>``. The database has the id and a digest of the secret."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from typing import Literal, TypeAlias, get_args

from rolf.checks import is_text, one_of
from rolf.errors import InvalidArgument
from rolf.experiments.storage.contract import Key, Store

Scope: TypeAlias = Literal["read", "decide", "admin"]

#: from the smallest to the largest: each may do what those before it may
SCOPES: tuple[str, ...] = get_args(Scope)
FORM = re.compile(r"rolf_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
MAX_NOTE = 200

#: whoever asks where no keys are needed
LOCAL = Key("local", "", "admin", None, "", 0.0)
#: in place of a key that does not exist, so that looking for one takes as long
NOBODY = Key("", "0" * 64, "read", None, "", 0.0, revoked=0.0)


def new_key(scope: str, experiment: str | None = None, note: str = "") -> tuple[str, Key]:
    """A key as its user gets it, and what the database keeps of it."""
    one_of("scope", scope, *SCOPES)
    if experiment is not None and not experiment.strip():
        raise InvalidArgument("experiment", experiment, "the name of an experiment")
    if not note.isprintable() or not is_text(note) or len(note) > MAX_NOTE:
        raise InvalidArgument("note", note, f"a line of up to {MAX_NOTE} characters")
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    key = Key(id, _digest(secret), scope, experiment, note, time.time())
    return f"rolf_{id}_{secret}", key


def check_key(store: Store, text: str) -> Key | None:
    """The key that a text is; None if it is none, or a revoked one."""
    form = FORM.fullmatch(text)
    if form is None:
        return None
    id, secret = form.groups()
    key = store.key(id) or NOBODY
    same = hmac.compare_digest(_digest(secret), key.digest)
    return key if same and key.revoked is None else None


def allows(key: Key, scope: str) -> bool:
    """Whether a key may do what needs a scope."""
    return SCOPES.index(key.scope) >= SCOPES.index(scope)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
