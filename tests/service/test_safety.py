"""What an attacker would try with keys; and how much of everything there may be."""

from __future__ import annotations

import json
import logging
import socket
import time

import httpx
import pytest

from rolf.errors import InvalidArgument
from rolf.experiments.storage.urls import connect
from rolf.service.auth import SCOPES, RateLimit, find_key, new_key
from rolf.service.settings import Settings
from support.attacks import BODIES, call
from support.served import make_key, problem, service, wait_until
from support.stores import make_url

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
        reads = method == "GET" or path.endswith(("/estimates", "/probabilities"))
        expected = "read" if reads else "admin"
        assert scope == ("decide" if path.endswith(("/ask", "/tell")) else expected)


def test_secrets_are_compared_in_full_and_stored_hashed():
    store = connect(make_url("sqlite"))
    text, key = new_key("decide", note="for the shop")
    store.add_key(key)
    assert find_key(store, text) == key
    secret = text.rsplit("_", 1)[-1] if "_" not in text[18:] else text[18:]
    assert secret not in json.dumps(store.keys())
    for place in range(18, len(text)):
        other = "A" if text[place] != "A" else "B"
        assert find_key(store, text[:place] + other + text[place + 1 :]) is None
    for bad in ("", "rolf__", text.upper(), text + "\n", text + "\0"):
        assert find_key(store, bad) is None
    with pytest.raises(InvalidArgument, match="scope"):
        new_key("root")
    with pytest.raises(InvalidArgument, match="note"):
        new_key("read", note="two\nlines")
    store.close()


def test_a_key_in_the_wrong_place_is_not_logged(client, caplog):
    caplog.set_level(logging.INFO, "rolf.service")
    key = make_key(client.url)
    secret = key.split("_", 2)[2]

    def requests():
        return [each.fields for each in caplog.records if each.msg == "request"]

    client.get("/healthz")
    wait_until(requests)  # lines are written after the answers: none of an earlier test may follow
    wait_until(lambda: requests()[-1]["route"] == "/healthz")
    caplog.clear()
    for sender in (client, client.as_(None), client.as_("rolf_000000000000_" + "S" * 43)):
        sender.get(f"/v1/experiments/{key}")
        sender.get(f"/v1/experiments/%20x{key}x/log")
        sender.ask(key)
        sender.get("/v1/whoami", headers={"X-Request-Id": key})
        sender.get(f"/v1/experiments/{'x' * 300}")
        sender.post("/v1/experiments", json={"name": key, "features": [[1.0], [0.0]]})

    wait_until(lambda: len(requests()) == 18)
    lines = requests()
    assert secret not in json.dumps(lines)
    named = [line["experiment"] for line in lines if "experiment" in line]
    assert len(named) == 5  # strangers write nothing of their own
    assert named[3] == "x" * 100
    assert named[0] == named[4] == f"rolf_{key.split('_')[1]}_..."
    client.delete(f"/v1/experiments/{key}", params={"confirm": key})


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
    buckets = RateLimit(2.0, 3, clock=lambda: now[0])
    assert [buckets.wait_for("a") for _ in range(5)] == [0, 0, 0, 1, 1]
    now[0] = 1.0
    assert [buckets.wait_for("a") for _ in range(3)] == [0, 0, 1]
    now[0] = 100.0
    assert [buckets.wait_for("a") for _ in range(4)] == [0, 0, 0, 1]
    assert RateLimit(0.0, 1).wait_for("a") == 0


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
