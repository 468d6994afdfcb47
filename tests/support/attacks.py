"""Shared by tests that attack the service: a valid request for every route."""

from __future__ import annotations

from support.served import FEATURES

#: a valid body for each route that takes one
BODIES = {
    "/v1/experiments": {"name": "made", "features": FEATURES},
    "/v1/experiments/{name}/ask": {},
    "/v1/experiments/{name}/estimates": {"level": 0.5},
    "/v1/experiments/{name}/tell": {"id": "x-1", "reward": 1.0},
    "/v1/experiments/{name}/correct": {"id": "x-1", "reward": 1.0, "reason": "why not"},
    "/v1/experiments/{name}/learn": {"arms": [0], "rewards": [1.0]},
    "/v1/experiments/{name}/learn/totals": {"counts": [1, 0, 0], "sums": [1.0, 0.0, 0.0]},
    "/v1/experiments/{name}/probabilities": {},
    "/v1/experiments/{name}/arms/update": {"of": [0], "features": [[1.0, 2.0]]},
    "/v1/experiments/{name}/arms": {"features": [[1.0, 2.0]]},
    "/v1/experiments/{name}/arms/retire": {"arms": [0]},
    "/v1/experiments/{name}/arms/restore": {"arms": [0]},
}


def call(client, method, path, name="mine"):
    """A request that succeeds with the right key."""
    body = BODIES.get(path) if method == "POST" else None
    params = {"confirm": name} if method == "DELETE" else None
    return client.request(method, path.replace("{name}", name), json=body, params=params)
