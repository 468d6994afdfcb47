"""What an attacker would try: other people's keys, bodies, names and paths."""

from __future__ import annotations

import json
import re
import socket
import time

import httpx
import pytest

from rolf.errors import InvalidArgument
from rolf.experiments.storage.urls import connect
from rolf.service.keys import SCOPES, check_key, new_key
from rolf.service.limits import Buckets
from rolf.service.settings import Settings
from served import FEATURES, make_key, problem, service
from stores import make_url

#: what makes a request to a route acceptable
BODIES = {
    "/v1/experiments": {"name": "made", "features": FEATURES},
    "/v1/experiments/{name}/ask": {},
    "/v1/experiments/{name}/tell": {"id": "x-1", "reward": 1.0},
    "/v1/experiments/{name}/correct": {"id": "x-1", "reward": 1.0, "reason": "why not"},
    "/v1/experiments/{name}/learn": {"arms": [0], "rewards": [1.0]},
    "/v1/experiments/{name}/arms": {"features": [[1.0, 2.0]]},
    "/v1/experiments/{name}/arms/retire": {"arms": [0]},
    "/v1/experiments/{name}/arms/restore": {"arms": [0]},
}


@pytest.fixture(scope="module")
def client():
    with service(max_body=100_000, rate=0.0) as client:
        client.url = client.app.state.service.settings.storage
        client.make("mine")
        client.make("other")
        yield client


@pytest.fixture(scope="module")
def routes(client):
    """Every route that needs a key, from the description: method, path, and its scope."""
    paths = client.get("/openapi.json").json()["paths"]
    found = [
        (method.upper(), path, operation["x-scope"])
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation.get("security")
    ]
    assert len(found) >= 20
    for path, operations in paths.items():
        assert all("security" in each for each in operations.values()) or path in (
            "/healthz",
            "/readyz",
        )
    return found


def call(client, method, path, name="mine"):
    """A request that would be fine with the right key."""
    body = BODIES.get(path) if method == "POST" else None
    params = {"confirm": name} if method == "DELETE" else None
    return client.request(method, path.replace("{name}", name), json=body, params=params)


# --- keys --------------------------------------------------------------------------------------


def test_without_a_key_there_is_no_access(client, routes):
    for method, path, _ in routes:
        answer = call(client.as_(None), method, path)
        problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_what_is_no_key_is_refused(client, routes):
    key = client.headers["authorization"].removeprefix("Bearer ")
    id, secret = key.split("_", 2)[1:]
    wrong = [
        "rolf",
        "null",
        id,
        secret,
        f"rolf_{id}_",
        f"rolf_{id}_{secret[:-1]}",
        f"rolf_{id}_{secret}x",
        f"rolf_{id}_{secret[::-1]}",
        f"rolf_{'0' * 12}_{secret}",
        f"rolf_{id.upper()}_{secret}",
        f"rolf_' OR 1=1 --_{secret}",
        f"{key}, {key}",
        f"{key} {key}",
        "x" * 5_000,
    ]
    for method, path, _ in routes:
        for text in wrong:
            problem(call(client.as_(text), method, path), 401, "unauthorized")
    for header in (key, f"Basic {key}", f"Token {key}", f"bearer: {key}", "Bearer"):
        answer = httpx.get(
            f"{client.base_url}/v1/whoami", headers={"Authorization": header}, trust_env=False
        )
        problem(answer, 401, "unauthorized")
    answer = httpx.get(f"{client.base_url}/v1/whoami?key={key}&access_token={key}", trust_env=False)
    problem(answer, 401, "unauthorized")


def test_a_revoked_key_is_refused_at_once(client, routes):
    key = make_key(client.url)
    visitor = client.as_(key)
    assert visitor.get("/v1/whoami").json()["scope"] == "admin"
    store = connect(client.url)
    store.revoke_key(key.split("_")[1], time.time())
    store.close()
    for method, path, _ in routes:
        problem(call(visitor, method, path), 401, "unauthorized")


def test_a_key_for_one_experiment_does_not_see_others(client, routes):
    visitor = client.as_(make_key(client.url, "admin", "other"))
    for method, path, _ in routes:
        if "{name}" in path:
            unknown = problem(call(visitor, method, path, "nobody"), 404, "not-found")
            foreign = problem(call(visitor, method, path, "mine"), 404, "not-found")
            assert foreign["detail"].replace("mine", "nobody") == unknown["detail"]
    problem(call(visitor, "POST", "/v1/experiments"), 403, "forbidden")
    listed = visitor.get("/v1/experiments").json()["experiments"]
    assert [each["name"] for each in listed] == ["other"]
    assert visitor.get("/v1/whoami").json()["experiment"] == "other"
    assert visitor.ask("other").status_code == 200
    assert client.get("/v1/experiments/mine").json()["asked"] == 0


def test_a_key_does_what_its_scope_allows_and_no_more(client, routes):
    for scope in SCOPES[:-1]:
        visitor = client.as_(make_key(client.url, scope))
        for method, path, needed in routes:
            if SCOPES.index(needed) > SCOPES.index(scope):
                answer = call(visitor, method, path)
                assert needed in problem(answer, 403, "forbidden")["detail"]
                if path in BODIES:  # nothing is said about the body
                    place = path.replace("{name}", "mine")
                    problem(visitor.request(method, place, json=[]), 403, "forbidden")
            elif needed == "read":
                assert call(visitor, method, path).status_code == 200
    assert client.get("/v1/experiments/mine").status_code == 200


def test_reading_needs_no_more_than_read(routes):
    for method, path, scope in routes:
        expected = "read" if method == "GET" else "admin"
        assert scope == ("decide" if path.endswith(("/ask", "/tell")) else expected)


def test_secrets_are_compared_in_full_and_stored_hashed():
    store = connect(make_url("sqlite"))
    text, key = new_key("decide", note="for the shop")
    store.add_key(key)
    assert check_key(store, text) == key
    secret = text.rsplit("_", 1)[-1] if "_" not in text[18:] else text[18:]
    assert secret not in json.dumps(store.keys())
    for place in range(18, len(text)):
        other = "A" if text[place] != "A" else "B"
        assert check_key(store, text[:place] + other + text[place + 1 :]) is None
    for bad in ("", "rolf__", text.upper(), text + "\n", text + "\0"):
        assert check_key(store, bad) is None
    with pytest.raises(InvalidArgument, match="scope"):
        new_key("root")
    with pytest.raises(InvalidArgument, match="note"):
        new_key("read", note="two\nlines")
    store.close()


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


def test_bodies_must_say_that_they_are_json(client, routes):
    for path in bodies(routes):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            answer = client.post(path, content=b"{}", headers={"Content-Type": kind})
            problem(answer, 415, "unsupported-media-type")


def test_code_cannot_be_named_as_a_policy(client):
    for policy in ("os:system", "rolf.policies.ucb:UCB", "subprocess:Popen", "__main__:X", "UCB"):
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


# --- headers of answers ------------------------------------------------------------------------


def test_every_answer_has_safe_headers(client, routes):
    answers = [call(client.as_(None), method, path) for method, path, _ in routes]
    answers += [client.get(path) for path in ("/", "/healthz", "/nowhere", "/v1/experiments")]
    for answer in answers:
        headers = answer.headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["cache-control"] in ("no-store", "no-cache")
        assert "server" not in headers
    page = client.get("/").headers["content-security-policy"]
    for part in ("script-src 'self'", "style-src 'self'", "connect-src 'self'", "img-src 'self'"):
        assert part in page


# --- too much ----------------------------------------------------------------------------------


def test_each_key_has_its_rate():
    with service(rate=1.0, burst=5) as client:
        url = client.app.state.service.settings.storage
        answers = [client.get("/v1/whoami") for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429]
        problem(answers[-1], 429, "too-many-requests")
        assert int(answers[-1].headers["retry-after"]) >= 1
        problem(client.ask(), 429, "too-many-requests")
        other = client.as_(make_key(url, "read"))
        assert other.get("/v1/whoami").status_code == 200
        id = client.headers["authorization"].split("_")[1]
        for _ in range(10):  # nobody empties another's bucket
            wrong = client.as_(f"rolf_{id}_{'x' * 43}").get("/v1/whoami")
            problem(wrong, 401, "unauthorized")


def test_buckets_fill_up_again():
    now = [0.0]
    buckets = Buckets(2.0, 3, clock=lambda: now[0])
    assert [buckets.wait_for("a") for _ in range(5)] == [0, 0, 0, 1, 1]
    now[0] = 1.0
    assert [buckets.wait_for("a") for _ in range(3)] == [0, 0, 1]
    now[0] = 100.0
    assert [buckets.wait_for("a") for _ in range(4)] == [0, 0, 0, 1]
    assert Buckets(0.0, 1).wait_for("a") == 0


def test_slow_clients_are_not_waited_for():
    with service(receive_timeout=0.3) as client:
        client.make()
        address = (client.base_url.host, client.base_url.port)
        key = client.headers["authorization"]
        start = f"POST /v1/experiments/one/ask HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\n"
        slow = {
            "headers": start,
            "body": f"{start}Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{{",
        }
        for what, text in slow.items():
            with socket.create_connection(address, timeout=10) as connection:
                connection.sendall(text.encode())
                began, answer = time.monotonic(), b""
                while part := connection.recv(65_536):
                    answer += part
                assert time.monotonic() - began < 5.0
            assert (b" 408 " in answer) == (what == "body")
        assert client.ask().status_code == 200


# --- without keys ------------------------------------------------------------------------------


def test_without_keys_only_this_machine_is_served():
    with pytest.raises(InvalidArgument, match="host"):
        Settings(host="0.0.0.0", insecure_local=True)
    for host in ("192.168.0.1", "example.org", "::"):
        with pytest.raises(InvalidArgument, match="insecure-local"):
            Settings(host=host, insecure_local=True)
    with service(insecure_local=True) as client:
        local = client.as_(None)
        assert local.get("/v1/whoami").json() == {
            "key": "local",
            "scope": "admin",
            "experiment": None,
        }
        local.make()
        assert local.ask().status_code == 200
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil:80"):
            problem(local.get("/v1/whoami", headers={"Host": host}), 403, "forbidden")
        for host in ("localhost", "localhost:1234", "127.0.0.1:80", "[::1]:80"):
            assert local.get("/v1/whoami", headers={"Host": host}).status_code == 200
        foreign = {"Origin": "https://evil.example"}
        problem(local.get("/v1/whoami", headers=foreign), 403, "forbidden")
        cross = {"Sec-Fetch-Site": "cross-site"}
        problem(local.get("/v1/whoami", headers=cross), 403, "forbidden")
        own = {"Origin": str(local.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        assert local.get("/v1/whoami", headers=own).status_code == 200
        problem(local.as_("wrong").get("/v1/whoami"), 401, "unauthorized")
