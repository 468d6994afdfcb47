"""The description of the API (OpenAPI 3.1), with the problems that every route may answer."""

from __future__ import annotations

from typing import Any

from rolf.service.http.errors import KINDS, MEDIA_TYPE
from rolf.service.schemas.responses import ProblemShown

#: of every route under /v1
EVERYWHERE = (400, 401, 403, 404, 408, 413, 422, 429, 431, 500, 503)
#: of routes that change something
CHANGES = (409, 415)
REF = "#/components/schemas/Problem"


def describe(schema: dict[str, Any]) -> dict[str, Any]:
    """Complete what FastAPI says about the routes."""
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    problem = ProblemShown.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs") | {"Problem": problem}
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schema["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "bearerFormat": "rolf_<id>_<secret>"}
    }
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"]
            responses.pop("422", None)
            keyed = path.startswith("/v1/") or path == "/metrics"
            if keyed:
                operation["security"] = [{"key": []}]
            statuses = EVERYWHERE if keyed else (400, 408, 413, 431, 500, 503)
            if method != "get" or path.endswith(("/status", "/diagnosis", "/estimates")):
                statuses = (*statuses, *CHANGES)
            for status in sorted(statuses):
                responses[str(status)] = _problem(status)
            if path.endswith("/experiments") and method == "post":
                responses["200"] = {**responses["201"], "description": "It exists already"}
                where = {"schema": {"type": "string"}, "description": "The experiment"}
                responses["201"] = {**responses["201"], "headers": {"Location": where}}
    return schema


def _problem(status: int) -> dict[str, Any]:
    slugs = [slug for slug, kind in KINDS.items() if kind.status == status]
    headers = {}
    if status in (429, 503):
        words = "Seconds until it is worth trying again"
        headers["Retry-After"] = {"schema": {"type": "integer"}, "description": words}
    return {
        "description": ", ".join(f"`{slug}`: {KINDS[slug].title}" for slug in slugs),
        "content": {MEDIA_TYPE: {"schema": {"$ref": REF}}},
        **({"headers": headers} if headers else {}),
    }
