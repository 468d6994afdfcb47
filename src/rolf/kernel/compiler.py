"""Compile what Python calls, and nothing twice: the one file that leans on Numba's internals.

Numba optimises every function together with copies of everything it calls, and emits machine code
for it. A helper shared by twenty functions is paid for twenty times over, and its own machine code
never runs, because each caller holds a copy. Here, functions that only compiled code can call keep
their plain intermediate code (``InnerLibrary``), and only the outermost function is optimised and
emitted, once, with everything inside it. That halves the time to compile; results stay the same to
the last bit.

It applies to our own operations and helpers and to Numba's; a user's ``@njit`` function is compiled
as usual, since Python may call it. Versions of Numba that have not been tried fall back to plain
Numba, as does any version with ``ROLF_PLAIN_NUMBA=1``.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import cgutils
from numba.core.codegen import CPUCodegen, JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.event import Event, Listener, install_listener
from numba.core.types import Array
from numba.core.types.containers import BaseTuple
from numba.extending import intrinsic

#: the versions of Numba that this file has been tried with
TRIED = ("0.68.",)
#: the variable that turns it off
PLAIN = "ROLF_PLAIN_NUMBA"

#: whether a function is called by compiled code alone
IsInner = Callable[[Callable[..., Any]], bool]


def tried() -> bool:
    """Whether this file may be used with the Numba that is installed."""
    return os.environ.get(PLAIN) != "1" and numba.__version__.startswith(TRIED)


def compiler_options(is_inner: IsInner) -> dict[str, Any]:
    """The options of ``numba.njit`` for an outermost function."""
    if not tried():
        return {}
    return {"pipeline_class": type("Compiler", (OutermostCompiler,), {"is_inner": is_inner})}


class OutermostCompiler(Compiler):  # type: ignore[misc]
    """Compiles a function that Python calls, with everything that it calls in turn."""

    is_inner: IsInner

    def compile_extra(self, function: Callable[..., Any]) -> CompileResult:
        codegen = self.state.targetctx.codegen()
        chooser = LibraryChooser(codegen, type(self).is_inner)
        with _garbage_kept(), install_listener("numba:compile", chooser), chooser:
            result = super().compile_extra(function)
        _connect_environments(codegen, chooser.environments)
        return result


class LibraryChooser(Listener):  # type: ignore[misc]
    """Gives inner functions an ``InnerLibrary``, and all others Numba's own.

    Numba compiles under a lock that all threads share: no other thread compiles meanwhile.
    """

    def __init__(self, codegen: CPUCodegen, is_inner: IsInner) -> None:
        self.environments: dict[str, Any] = {}
        self._codegen = codegen
        self._is_inner = is_inner
        self._usual = codegen._library_class
        self._classes: list[Any] = []
        self._inner = type("InnerLibrary", (InnerLibrary,), {"environments": self.environments})

    def on_start(self, event: Event) -> None:
        inner = self._is_inner(event.data["dispatcher"].py_func)
        self._classes.append(self._codegen._library_class)
        self._codegen._library_class = self._inner if inner else self._usual

    def on_end(self, event: Event) -> None:
        self._codegen._library_class = self._classes.pop()

    def __enter__(self) -> LibraryChooser:
        return self

    def __exit__(self, *_: object) -> None:
        self._codegen._library_class = self._usual


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Intermediate code to be copied into callers: neither optimised nor emitted."""

    #: name -> environment of each inner function: what its errors refer to
    environments: dict[str, Any]

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironments(super().codegen, self.environments)


class _WithoutEnvironments:
    """A code generator that keeps the environments of functions that have no address yet."""

    def __init__(self, codegen: CPUCodegen, environments: dict[str, Any]) -> None:
        self._codegen = codegen
        self._environments = environments

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        self._environments[name] = environment


def _connect_environments(codegen: CPUCodegen, environments: dict[str, Any]) -> None:
    """Tell the copies of inner functions where their environments are."""
    engine = codegen._engine
    missing = [name for name in environments if not engine.is_symbol_defined(name)]
    if missing:  # they may still become part of functions that are compiled later
        lines = (f'@"{name}" = common global ptr null' for name in missing)
        codegen._add_module(llvm.parse_assembly("\n".join(lines)))
        engine.finalize_object()
    for name, environment in environments.items():
        codegen.set_env(name, environment)


# --- arrays that are not counted ---------------------------------------------------------------


def borrowing() -> Callable[[Any], Any]:
    """The compiled form of ``rolf.kernel.borrowed``."""
    if not tried():
        return lambda value: value
    return lambda value: _uncounted(value)


@intrinsic  # type: ignore[untyped-decorator]
def _uncounted(_: Any, value: Any) -> Any:
    """The same value, whose arrays do not know their owner: copies of it count no references."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _strip(context, builder, signature.args[0], args[0])

    return value(value), generate


def _strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    if isinstance(kind, BaseTuple):
        fields = [builder.extract_value(value, place) for place in range(len(kind))]
        parts = [_strip(context, builder, *each) for each in zip(kind.types, fields, strict=True)]
        return context.make_tuple(builder, kind, parts)
    context.nrt.incref(builder, kind, value)
    return value


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Compiling makes millions of small objects, and hardly any garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
