"""The tests of a module lie where the module does."""

from __future__ import annotations

from pathlib import Path

from support.sources import PACKAGE, ROOT

TESTS = ROOT / "tests"
#: folders of tests that are about no folder of the library
OTHERS = {
    "benchmarks": "what runs must be run",
    "data": "files that tests read",
    "docs": "the documentation",
    "lint": "how the sources are written",
    "package": "the distribution: its files, its extras",
    "service/page": "the page of the service, which is JavaScript",
    "support": "what tests share",
}
#: folders of the library whose tests lie in the folder above, or elsewhere
ELSEWHERE = {
    "estimators/ridge": "tests/estimators compares all estimators with one oracle",
    "experiments/storage/postgres": "every store passes the same tests",
    "experiments/storage/sqlite": "every store passes the same tests",
    "service/routes": "tests/service asks over HTTP",
    "service/schemas": "tests/service asks over HTTP",
    "testing": "its checks are run where the things they check are tested",
}


def folders(root: Path, pattern: str) -> set[str]:
    """The folders below ``root`` that hold files of this pattern."""
    found = {path.parent.relative_to(root).as_posix() for path in root.rglob(pattern)}
    return found - {"."}


def test_folders_of_tests_are_those_of_the_library():
    assert folders(TESTS, "test_*.py") - folders(PACKAGE, "*.py") <= set(OTHERS)


def test_every_folder_of_the_library_has_tests():
    without = folders(PACKAGE, "*.py") - folders(TESTS, "test_*.py")
    assert without <= set(ELSEWHERE)


def test_tests_outside_of_folders_are_about_modules():
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {"walks"}
    assert {path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py")} <= modules
