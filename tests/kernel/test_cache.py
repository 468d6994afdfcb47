"""Compiled code on disk is read only from places no other user can write to, and never if
damaged."""

from __future__ import annotations

import os
import pickle
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from numba.core import event

from rolf.kernel import compiled, disk_cache, folders
from rolf.kernel.trust import owned, weakness
from support.helpers import as_root

OTHER = 12345  # the number of another user


def add_one(x):
    return x + 1.0


def compiles(argument=1.0):
    """Whether a process that starts now has to compile; it always gets the right result."""
    function = compiled(add_one, title="add one")
    with event.install_recorder("numba:compile") as recorder:
        assert function(argument) == argument + 1.0
    return bool(recorder.buffer)


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """The user's cache folder, which is empty, as is the folder for temporary files."""
    monkeypatch.delenv("ROLF_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(disk_cache, "_warned", [])
    (tmp_path / "temporary").mkdir()
    return tmp_path / "own" / "rolf"


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """ROLF_CACHE_DIR, with the code of ``add_one``."""
    root = tmp_path / "above" / "chosen"
    monkeypatch.setenv("ROLF_CACHE_DIR", str(root))
    assert compiles()
    assert not compiles()
    return root


def folder_in(root):
    (folder,) = root.iterdir()
    return folder


def code_in(root):
    (file,) = root.glob("*/*.code")
    return file


class Poison:
    """Whoever loads it creates a file."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


@pytest.fixture
def trace(chosen, tmp_path):
    """A file that appears when what is now in the cache is loaded."""
    path = tmp_path / "trace"
    disk_cache._write(code_in(chosen), pickle.dumps(Poison(path)))
    return path


def test_code_is_loaded_if_no_other_user_can_write_it(chosen, trace):
    assert compiles()
    assert trace.exists()  # this is how poison would work


def swap_for_link(place):
    """Somebody else's link to where the same files lie now."""
    moved = place.with_name("moved")
    place.rename(moved)
    place.symlink_to(moved)
    os.lchown(place, OTHER, OTHER)


def give_away(place):
    os.chown(place, OTHER, OTHER)


PLACES = {
    "the folder above the root": lambda root: root.parent,
    "the root": lambda root: root,
    "the folder": folder_in,
    "the file": code_in,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "weaken",
    [
        lambda place: place.chmod(0o777),
        lambda place: place.chmod(0o775),
        pytest.param(give_away, marks=as_root),
        pytest.param(swap_for_link, marks=as_root),
    ],
    ids=["all can write", "a group can write", "of another user", "a link of another user"],
)
def test_code_that_others_could_have_written_is_not_loaded(place, weaken, chosen, trace, own):
    weaken(PLACES[place](chosen))
    assert compiles()
    assert not trace.exists()
    assert not compiles()  # kept in the user's own folder, or in the place of the file
    kept = chosen if place == "the file" else own
    assert weakness(code_in(kept)) is None


@as_root
def test_a_folder_for_temporary_files_that_another_user_made_is_not_used(tmp_path, caplog):
    (tmp_path / "own").write_text("not a folder")
    temporary = tmp_path / "temporary"
    temporary.chmod(0o1777)
    prepared = temporary / f"rolf-{os.geteuid()}"
    prepared.mkdir(mode=0o777)
    os.chown(prepared, OTHER, OTHER)
    assert compiles()
    assert "belongs to somebody else" in caplog.text
    assert list(prepared.iterdir()) == []


def test_links_of_our_own_are_followed(chosen, monkeypatch):
    link = chosen.with_name("link")
    link.symlink_to(chosen.name)
    monkeypatch.setenv("ROLF_CACHE_DIR", str(link))
    assert not compiles()


def test_a_link_of_our_own_to_where_others_can_write_is_not(chosen, trace, tmp_path):
    target = tmp_path / "open" / "target"
    target.parent.mkdir()
    chosen.rename(target)
    chosen.symlink_to(target)
    target.parent.chmod(0o777)
    assert compiles()
    assert not trace.exists()


def test_a_sticky_folder_above_is_safe(tmp_path, chosen):
    chosen.parent.chmod(0o1777)
    assert weakness(code_in(chosen)) is None
    assert not compiles()
    folder_in(chosen).chmod(0o1777)  # but others could add files there
    assert compiles()


def test_a_circle_of_links_is_an_error_like_a_missing_file(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for name in ("a", "missing"):
        with pytest.raises(OSError, match=name):
            weakness(tmp_path / name)


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_no_other_user_can_write_new_folders_and_files(mask, own, tmp_path, monkeypatch):
    def modes(root):
        places = (root, folder_in(root), code_in(root))
        return [place.stat().st_mode & 0o777 for place in places]

    with umask(mask):
        assert compiles()
        assert modes(own) == [0o700, 0o700, 0o600]
        root = tmp_path / "new" / "chosen"
        monkeypatch.setenv("ROLF_CACHE_DIR", str(root))
        assert compiles()
    readable = [0o755, 0o755, 0o644]  # an image's service is another user than its builder
    assert modes(root) == [mode & ~mask for mode in readable]
    assert not compiles()


def unknown_home(error):
    def home():
        raise error("no home")

    return home


@pytest.mark.parametrize("error", [RuntimeError, KeyError])
def test_a_user_without_a_home_compiles_in_memory_and_is_told_once(error, monkeypatch, caplog):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", unknown_home(error))
    assert compiles()  # kept in the private folder for temporary files
    assert not compiles()
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null")
    for _ in range(2):
        assert compiles()
    assert caplog.text.count("cannot be kept") == 1


@contextmanager
def acting_as(user):
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)


def test_code_of_others_that_this_does_not_call_does_not_count(tmp_path, monkeypatch):
    """The file of a user's policy that this process has imported, which is gone by now."""
    file = tmp_path / "stranger.py"
    file.write_text(
        "from rolf.kernel import shared\n\n\n@shared\ndef twice(x):\n    return 2 * x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import stranger

    assert compiles()
    file.unlink()
    assert not compiles()
    monkeypatch.setitem(globals(), "helper", stranger.twice)  # but what this may call does
    assert compiles()
    assert compiles()


@as_root
def test_code_that_root_compiled_serves_every_user(public, monkeypatch, caplog):
    monkeypatch.setenv("ROLF_CACHE_DIR", str(public / "image"))
    assert compiles()
    files = sorted((public / "image").rglob("*"))
    mine = public / "mine"
    mine.mkdir()
    os.chown(mine, OTHER, OTHER)
    monkeypatch.setenv("XDG_CACHE_HOME", str(mine))
    monkeypatch.setattr(tempfile, "tempdir", str(mine))
    with acting_as(OTHER):
        assert not compiles()
        assert compiles(1)  # of whole numbers: not there
        assert not compiles(1)
    assert sorted((public / "image").rglob("*")) == files
    assert code_in(mine / "rolf").stat().st_uid == OTHER
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null")
    with acting_as(OTHER):
        assert not compiles()
        assert compiles(1)
    assert "is read-only" in caplog.text


@as_root
def test_only_the_owner_writes_even_if_others_could(public, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_, **__: True)
    assert owned(public)
    with acting_as(OTHER):
        assert not owned(public)


def test_a_read_only_folder_is_read(chosen, own):
    if os.geteuid() == 0:
        pytest.skip("root can write to any folder")
    folder_in(chosen).chmod(0o555)
    assert not compiles()
    assert compiles(1)
    folder_in(chosen).chmod(0o755)
    assert code_in(own)


DAMAGE = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "garbage": lambda content: os.urandom(len(content)),
    "one bit": lambda content: content[:-1] + bytes(byte ^ 1 for byte in content[-1:]),
}
WRONG = {
    "no code": 1,
    "nothing of its own": ("key", "payload"),
    "two things": (None, None),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_compiled_again(damage, chosen):
    for file in [path for path in chosen.rglob("*") if path.is_file()]:
        file.write_bytes(DAMAGE[damage](file.read_bytes()))
    assert compiles()
    assert not compiles()


def test_every_bit_is_checked(chosen):
    file = code_in(chosen)
    content = file.read_bytes()
    assert disk_cache._read(file) is not None
    for place in (0, 31, 32, len(content) // 2, len(content) - 1):
        damaged = bytearray(content)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        assert disk_cache._read(file) is None


@pytest.mark.parametrize("wrong", WRONG)
def test_a_file_with_something_else_is_compiled_again(wrong, chosen):
    disk_cache._write(code_in(chosen), pickle.dumps(WRONG[wrong]))
    assert compiles()
    assert not compiles()


def test_code_for_another_function_is_not_run(chosen):
    """A file under the wrong name: what it holds says what it is for."""
    function = compiled(lambda x: x + 2.0, title="add two")
    assert function(1.0) == 3.0
    (added,) = set(chosen.glob("*/*.code")) - set(chosen.glob("*/add_one*"))
    code = next(chosen.glob("*/add_one*"))
    code.write_bytes(added.read_bytes())
    assert compiles()


def test_two_processes_that_compile_at_once_keep_both(tmp_path, monkeypatch):
    monkeypatch.setenv("ROLF_CACHE_DIR", str(tmp_path / "chosen"))
    one, other = (compiled(add_one, title="add one") for _ in range(2))
    assert (one(1), other(1.5)) == (2.0, 2.5)
    assert not compiles(1)
    assert not compiles(1.5)


def test_folders_are_tried_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("ROLF_CACHE_DIR", str(tmp_path / "chosen"))
    paths = [root.path for root in folders.roots()]
    temporary = tmp_path / "temporary" / f"rolf-{os.geteuid()}"
    assert paths == [tmp_path / "chosen", tmp_path / "own" / "rolf", temporary]
