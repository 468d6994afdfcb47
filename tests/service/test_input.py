"""What an attacker would send: bodies, names, paths and headers."""

from __future__ import annotations

import re
import socket

import httpx
import pytest

from support.attacks import BODIES
from support.served import FEATURES, make_key, problem, service

# --- bodies ------------------------------------------------------------------------------------


def bodies(routes):
    """The paths that take bodies."""
    found = [path for method, path, _ in routes if method == "POST" and path in BODIES]
    return [path.replace("{name}", "mine") for path in found]


def test_bodies_that_are_too_large(client, routes):
    long = b'{"n": 1, "x": "' + b"x" * 200_000 + b'"}'
    json_type = {"Content-Type": "application/json"}

    def stream():
        for _ in range(300):
            yield b" " * 1_000

    for path in bodies(routes):
        problem(client.post(path, content=long, headers=json_type), 413, "too-large")
        try:
            answer = client.post(path, content=stream(), headers=json_type)
        except httpx.WriteError:  # refused before it was sent
            continue
        problem(answer, 413, "too-large")


def test_batches_that_are_too_large():
    with service(max_batch=10) as client:
        client.make()
        ask = client.ask(n=11)
        assert "up to 10" in problem(ask, 413, "too-large")["detail"]
        rewards = [{"id": f"x-{i}", "reward": 1.0} for i in range(1, 12)]
        told = client.post("/v1/experiments/one/tell", json={"rewards": rewards})
        problem(told, 413, "too-large")
        many = {"arms": [0] * 101, "rewards": [0.0] * 101}
        problem(client.post("/v1/experiments/one/learn", json=many), 413, "too-large")
        more = {"features": [[1.0, 2.0]] * 11}
        problem(client.post("/v1/experiments/one/arms", json=more), 413, "too-large")
        problem(client.post("/v1/experiments", json={"name": "x", **more}), 413, "too-large")
        retired = client.post("/v1/experiments/one/arms/retire", json={"arms": [0] * 11})
        problem(retired, 413, "too-large")


MALFORMED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"1",
    b'"text"',
    b"\xff\xfe",
    b'{"a": "\xff"}',
    b'{"id": "\\ud800", "reward": 1}',
    b'{"reward": NaN, "id": "x-1"}',
    b'{"reward": Infinity, "id": "x-1"}',
    b'{"reward": 1e999, "id": "x-1"}',
    b'{"n": 1e300}',
    b'{"n": ' + b"9" * 6_000 + b"}",
    b'{"reward": ' + b"9" * 6_000 + b', "id": "x-1"}',
    b"[" * 50_000,
    b'{"a":' * 10_000,
    b'{"options": ' + b"[" * 500 + b"]" * 500 + b"}",
    b'{"n": "1"}',
    b'{"n": true}',
    b'{"n": 0}',
    b'{"n": -1}',
    b'{"surprise": 1}',
    b'{"__proto__": {"admin": true}}',
    b'{"arms": [{"arm": "a\\u0000b", "x": 1}]}',
    b'{"arms": [[]], "rewards": [[]]}',
    b'{"name": "ok", "features": [[1], [1, 2]]}',
    b'{"name": "ok", "features": [[1e300], [2]]}',
    b'{"name": "ok", "features": []}',
    b'{"name": "ok", "arms": [], "features": []}',
    b'{"name": "ok", "arms": [{"arm": "a", "x": {"y": 1}}, {"arm": "b", "x": 1}]}',
    b'{"name": "ok"}',
]


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: repr(body[:30]))
def test_malformed_bodies(client, routes, body):
    for path in bodies(routes):
        answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), (path, body, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("path", "body", "wrong"),
    [
        ("tell", {"id": "x-1", "reward": "high"}, ["reward"]),
        ("tell", {"id": "x-1"}, ["reward"]),
        ("tell", {"id": "x-1", "reward": 1.0, "more": 2}, ["more"]),
        ("tell", {}, ["id", "reward"]),
        ("tell", [], ["body"]),
        ("tell", {"rewards": [{"id": "x-1"}]}, ["rewards.0.reward"]),
        ("tell", {"rewards": []}, ["rewards"]),
        ("ask", {"available": ["a", None, [1]]}, ["available.1", "available.2"]),
        ("ask", {"context": {"age": "old"}}, ["context", "context.age"]),
        ("estimates", {"context": {"age": "old"}}, ["context", "context.age"]),
        ("estimates", {"available": []}, ["available"]),
        ("estimates", {"level": 1.0, "draws": 0}, ["draws", "level"]),
        ("estimates", {"draws": 100_001, "n": 2}, ["draws", "n"]),
        ("arms", {"arms": [{"arm": "x", "colour": ["red"]}]}, ["arms.0.colour"]),
    ],
)
def test_places_of_mistakes_are_those_of_the_request(client, path, body, wrong):
    data = problem(client.post(f"/v1/experiments/mine/{path}", json=body), 422, "invalid")
    assert sorted(each["argument"] for each in data["errors"]) == wrong
    for word in ("Told", "constrained", "list["):
        assert word not in data["detail"]


def test_bodies_must_say_that_they_are_json(client, routes):
    for path in bodies(routes):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            answer = client.post(path, content=b"{}", headers={"Content-Type": kind})
            problem(answer, 415, "unsupported-media-type")


def test_code_cannot_be_named_as_a_policy(client):
    for policy in (
        "os:system",
        "rolf.policies.rivals.ucb:UCB",
        "subprocess:Popen",
        "__main__:X",
        "UCB",
    ):
        body = {"name": "evil", "features": FEATURES, "policy": policy}
        problem(client.post("/v1/experiments", json=body), 422, "invalid")
    body = {"name": "evil", "features": "/etc/passwd"}
    problem(client.post("/v1/experiments", json=body), 422, "invalid")
    body = {"name": "evil", "features": FEATURES, "options": {"features": 1}}
    problem(client.post("/v1/experiments", json=body), 422, "invalid")
    problem(client.get("/v1/experiments/evil"), 404, "not-found")


# --- names and paths ---------------------------------------------------------------------------

NAMES = [
    "'; DROP TABLE rolf_experiments; --",
    '" OR 1=1 --',
    "<script>alert(1)</script>",
    "a\r\nSet-Cookie: x=1",
    "a\nb",
    "a\x00b",
    "../../etc/passwd",
    "a/b",
    "a%2Fb",
    ".",
    "..",
    "-",
    " a",
    "a ",
    "",
    "x" * 101,
    "\uff41",
    "a\u202eb",
    "{{7*7}}",
    "${jndi:ldap://x}",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_no_names(client, name):
    body = {"name": name, "features": FEATURES}
    problem(client.post("/v1/experiments", json=body), 422, "invalid")
    escaped = "".join(f"%{byte:02X}" for byte in name.encode())
    for part in ("", "/status", "/log"):
        answer = client.get(f"/v1/experiments/{escaped}{part}")
        problem(answer, 404, "not-found")
        assert "set-cookie" not in answer.headers


def test_arms_may_have_any_text_as_names(client):
    names = ["'; DROP TABLE rolf_log; --", "<img src=x onerror=alert(1)>", "=cmd|' /C calc'!A0"]
    rows = [{"arm": name, "x": float(i)} for i, name in enumerate(names)]
    client.make("texts", arms=rows, features=None)
    decisions = client.ask("texts", n=6).json()["decisions"]
    assert {decision["arm"] for decision in decisions} <= set(names)
    text = client.get("/v1/experiments/texts/log?format=csv").text
    assert "\n=cmd" not in text
    assert ",=cmd" not in text
    assert client.get("/v1/experiments/mine").status_code == 200


def raw(client, target, headers=""):
    """The answer to a request line that no library would send."""
    host, port = client.base_url.host, client.base_url.port
    with socket.create_connection((host, port), timeout=10) as connection:
        key = client.headers["authorization"]
        text = f"GET {target} HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\n{headers}"
        connection.sendall(f"{text}Connection: close\r\n\r\n".encode("latin-1"))
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    return int(answer.split(b" ", 2)[1]), answer


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2Fapp.py",
        "/static/%2e%2e/app.py",
        "/static/%2e%2e%2fsettings.py",
        "/static/..\\app.py",
        "/static//etc/passwd",
        "/static/%2Fetc%2Fpasswd",
        "/static/%00",
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "//v1/experiments",
        "/v1//experiments",
        "/v1/experiments/",
        "/v1/experiments/mine/",
        "/v1/experiments//mine",
        "/v1/experiments/mine%2Fstatus",
        "/v1/experiments/mine/../mine",
        "/v1/experiments/%6dine/%73tatus/x",
        "/v1/./experiments",
        "/V1/experiments",
        "/v1/experiments;x=1",
        "/v1/experiments%00",
        "/v2/experiments",
        "/docs",
        "/redoc",
        "/.git/config",
        "http://evil/v1/experiments/nobody",
    ],
)
def test_paths_that_lead_nowhere(client, path):
    status, answer = raw(client, path)
    assert status == 404, answer
    assert b"import" not in answer
    assert b"root:" not in answer


def test_a_path_in_other_letters_is_the_same_path(client):
    """Escapes that stand for ordinary letters are no way around a bound key."""
    visitor = client.as_(make_key(client.url, "read", "other"))
    for target in (
        "/v1/experiments/%6dine",
        "/v1/experiments/mine?name=other",
        "/v1/experiments/mine#",
    ):
        assert raw(visitor, target)[0] in (400, 404)


def test_methods_that_do_nothing(client, routes):
    for _, path, _ in routes:
        for method in ("PUT", "PATCH", "TRACE", "OPTIONS", "PROPFIND"):
            answer = client.request(method, path.replace("{name}", "mine"))
            problem(answer, 405, "method-not-allowed")
            assert answer.headers["allow"]
    assert "access-control-allow-origin" not in client.get("/v1/whoami").headers


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
def test_probes_may_ask_for_the_head_alone(client, path):
    nobody = client.as_(None)
    head, whole = nobody.head(path), nobody.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert nobody.get("/healthz").json() == {"status": "ok"}  # the connection is not out of step


def test_request_ids_are_checked(client):
    for good in ("abc-1.X_2", "a" * 64):
        assert (
            client.get("/healthz", headers={"X-Request-Id": good}).headers["x-request-id"] == good
        )
    for bad in ("a b", "a" * 65, '{"x":1}', "<b>", ""):
        answer = client.get("/healthz", headers={"X-Request-Id": bad})
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
    status, answer = raw(client, "/healthz", "X-Request-Id: a\x0bb\r\n")
    assert status in (200, 400)
    assert b"a\x0bb" not in answer


def test_headers_that_are_too_large(client):
    status, _ = raw(client, "/healthz", "".join(f"X-{i}: {'x' * 3_000}\r\n" for i in range(15)))
    assert status in (400, 431)
