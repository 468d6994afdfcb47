"""Operations that find their body by a class, in Python and in compiled code.

Compiled code finds bodies through ``numba.extending.overload`` on the class of the first
argument, because functions passed as arguments or closures miss Numba's disk cache in every
new process.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

from rolf.errors import RolfError
from rolf.kernel.folders import cache_folders, outside

P = ParamSpec("P")
R = TypeVar("R")
Body = TypeVar("Body", bound=Callable[..., Any])


class Flags(set[str]):
    """Compiler flags whose text is the same in every process: Numba puts it into function names."""

    def __str__(self) -> str:
        return str(sorted(self))


# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning. In a loop that
# also writes to an array the order may depend on where the arrays lie, so sums have loops of their
# own: replicas of an experiment must agree to the last bit (tests/kernel/test_dispatch.py).
FAST = Flags({"reassoc", "contract", "nsz"})

# Inner functions are never called from Python.
INNER = {"fastmath": FAST, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

_inner: set[Callable[..., Any]] = set()
_bodies: dict[Any, dict[type, Callable[..., Any]]] = {}
_registered: list[tuple[Any, Callable[..., Any], Callable[[], Any] | None]] = []
#: module and name -> a function that returns the compiled loop that is called by its symbol
_loops: dict[tuple[str, str], Callable[[], Any]] = {}
_active = False
_lock = threading.RLock()


def kernel(stub: Callable[P, R]) -> Callable[P, R]:
    """An operation whose body is found by the class of its first argument."""
    bodies: dict[type, Callable[..., Any]] = {}

    @functools.wraps(stub)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = bodies[type(args[0])](*args, **kwargs)
        return result

    _bodies[call] = bodies
    # Numba's types of NamedTuples name their class; all other types count as arrays
    _register(call, lambda params, *_: bodies.get(getattr(params, "instance_class", np.ndarray)))
    return call


def implement(cls: type, table: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
    """Register the bodies of operations for first arguments of class ``cls``."""
    for operation, body in table.items():
        _bodies[operation][cls] = body


def implements(operation: Callable[..., Any], cls: type) -> Callable[[Body], Body]:
    """Register one body, as a decorator."""

    def decorate(body: Body) -> Body:
        implement(cls, {operation: body})
        return body

    return decorate


def has_body(operation: Callable[..., Any], cls: type) -> bool:
    """Whether ``operation`` has a body for first arguments of class ``cls``."""
    return cls in _bodies[operation]


def body_of(operation: Callable[P, R], cls: type) -> Callable[P, R]:
    """The body of ``operation`` for first arguments of class ``cls``, to call directly."""
    if not has_body(operation, cls):
        where = f"{cls.__module__}.{cls.__qualname__}"
        name = getattr(operation, "__name__", "operation")
        raise RolfError(
            f"{where} has no body for {name}: name one in implement({cls.__qualname__}, "
            f"{{{name}: ...}})"
        )
    return _bodies[operation][cls]


def shared(function: Callable[P, R]) -> Callable[P, R]:
    """A helper that is compiled unchanged when a compiled function calls it."""
    _register(function, lambda *_: function)
    return function


def primitive(loops: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A whole-array NumPy function online, ``loops`` when compiled. For linear algebra only."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _register(function, lambda *_: loops)
        return function

    return decorate


def looped(function: Callable[P, R]) -> Callable[P, R]:
    """A scalar loop, compiled online as well, once for all its callers."""
    ready: list[Callable[P, R]] = []
    where = function.__module__, function.__qualname__
    by_symbol = "<locals>" not in function.__qualname__ and where not in _loops

    def loop() -> Callable[P, R]:
        with _lock:
            if not ready:
                title = function.__name__.strip("_").replace("_", " ") + ", online"
                ready.append(compiled(function, title=title, by_symbol=by_symbol))
        return ready[0]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return (ready[0] if ready else loop())(*args, **kwargs)

    if by_symbol:
        _loops[where] = loop
    _register(call, lambda *_: function, loop if by_symbol else None)
    return call


def loop_of(module: str, name: str) -> Any:
    """The compiled form of a ``looped`` function that other compiled code calls by its symbol."""
    importlib.import_module(module)
    return _loops[module, name]()


def borrowed(value: R) -> R:
    """The same arrays and NamedTuples of arrays, borrowed from a caller who keeps them alive.

    Compiled code counts references to every array it passes on, which may take longer than the work
    on the array; borrowed arrays are not counted. A function may borrow its arguments, which its
    caller keeps alive, if it returns neither them nor views of them.
    """
    return value


def _find_borrowing(*_: Any) -> Callable[..., Any]:
    from rolf.kernel.compiler import borrowing

    return borrowing()


def _register(
    call: Callable[..., Any],
    find: Callable[..., Any],
    loop: Callable[[], Callable[..., Any]] | None = None,
) -> None:
    """Make compiled code that calls ``call`` use what ``find`` returns for the argument types, or
    the compiled ``loop``."""
    _registered.append((call, find, loop))
    if _active:
        _tell_numba(call, find, loop)


def _tell_numba(
    call: Callable[..., Any],
    find: Callable[..., Any],
    loop: Callable[[], Callable[..., Any]] | None,
) -> None:
    from numba.extending import overload

    from rolf.kernel.compiler import call_by_symbol, tried

    def body(*types: Any) -> Callable[..., Any] | None:
        function: Callable[..., Any] | None = find(*types)
        if function is not None:
            _inner.add(function)
        return function

    if loop is not None and tried():
        call_by_symbol(call, loop())
    else:
        overload(call, jit_options=INNER, strict=False)(body)


_register(borrowed, _find_borrowing)


def activate() -> None:
    """Tell Numba about everything registered, now and from now on."""
    global _active
    with _lock:
        if not _active:
            for registered in _registered:
                _tell_numba(*registered)
            _active = True


def modules() -> set[str]:
    """The modules of everything that compiled code may call."""
    names = {call.__module__ for call, *_ in _registered}
    return names | {body.__module__ for bodies in _bodies.values() for body in bodies.values()}


def _homes_of(classes: Iterable[type]) -> set[str]:
    """The modules of the bodies that belong to these classes."""
    found = (bodies.get(cls) for bodies in _bodies.values() for cls in classes)
    return {body.__module__ for body in found if body is not None}


def _is_inner(function: Callable[..., Any]) -> bool:
    """Whether the compiled form of a function is called only by compiled code."""
    return function in _inner or function.__module__.startswith("numba.")


def compiled(
    function: Callable[P, R], *classes: type, title: str, by_symbol: bool = False
) -> Callable[P, R]:
    """The Numba version of ``function``, kept on disk between processes.

    ``classes`` are the params classes that decide which kernels it calls. If one of them, one of
    its bodies or the function itself is outside this package, its file counts as a source, as do
    the files of functions that it refers to; if one has no file (a notebook, a prompt), nothing is
    kept on disk. The logger ``rolf`` reports each compilation under ``title``. With ``by_symbol``,
    other compiled code calls it by its symbol; no other function may then have its module and name.
    """
    with _lock:
        import numba

        from rolf.kernel.compiler import compiler_options
        from rolf.kernel.disk_cache import DiskCache

        options = compiler_options(_is_inner, by_symbol=by_symbol)
        dispatcher = numba.njit(function, nogil=True, fastmath=FAST, **options)
        own = {function.__module__, *(cls.__module__ for cls in classes), *_homes_of(classes)}
        dispatcher._cache = DiskCache(
            function,
            lambda: cache_folders(own, modules()),
            title,
            ours=not any(map(outside, own)),
            before_compiling=activate,
            by_symbol=by_symbol,
            loop_of=loop_of,
        )
        return dispatcher  # type: ignore[no-any-return]
