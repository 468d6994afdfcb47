"""Dependencies that only some uses need, and the extra of the package that brings each."""

from __future__ import annotations

from importlib import import_module

from rolf.errors import MissingExtra

EXTRAS = {
    "datasketches": "analysis",
    "distributed": "cluster",
    "fastapi": "service",
    "httpx": "service",
    "matplotlib": "plots",
    "pandas": "all",
    "prometheus_client": "service",
    "psycopg": "postgres",
    "pyarrow": "files",
    "ray": "cluster",
    "scipy": "analysis",
    "uvicorn": "service",
}


def require(module: str, purpose: str) -> None:
    """Raise an error that says what to install if an optional dependency is missing."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        hint = f"pip install 'rolf-bandits[{EXTRAS[module]}]'"
        raise MissingExtra(f"{purpose} needs {module}, which is not installed: {hint}") from None
