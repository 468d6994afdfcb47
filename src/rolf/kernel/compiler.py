"""Compile what Python calls, and nothing twice: the one file that leans on Numba's internals.

Numba optimises every function together with copies of everything it calls, and emits machine code
for it. A helper shared by twenty functions is paid for twenty times over, and its own machine code
never runs, because each caller holds a copy. Here, functions that only compiled code can call keep
their plain intermediate code (``InnerLibrary``), and only the outermost function is optimised and
emitted, once, with everything inside it. That halves the time to compile; results stay the same to
the last bit.

A loop that several functions call (``looped``) is compiled once, and its callers call it by name
instead of copying it: their libraries note what they need (``Needed``), and a file of compiled
code is loaded after what it needs (``disk_cache.py``). Numba puts a counter into each name; such a
loop is named after a hash instead, so that all processes agree.

It applies to our own operations and helpers and to Numba's; a user's ``@njit`` function is compiled
as usual, since Python may call it. Versions of Numba that have not been tried fall back to plain
Numba, as does any version with ``ROLF_PLAIN_NUMBA=1``.
"""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
from numba.core import cgutils
from numba.core.bytecode import FunctionIdentity
from numba.core.codegen import CPUCodegen, JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.event import Event, Listener, install_listener
from numba.core.registry import cpu_target
from numba.core.types import Array, Dispatcher
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


class Needed(NamedTuple):
    """A compiled loop, which others call by the name of its symbol: where it is defined, and the
    types of its arguments."""

    module: str
    name: str
    arguments: tuple[Any, ...]
    symbol: str


def compiler_options(is_inner: IsInner, *, by_symbol: bool = False) -> dict[str, Any]:
    """The options of ``numba.njit`` for an outermost function, which other compiled code may call
    ``by_symbol``: its module and its name must be those of no other function."""
    if not tried():
        return {}
    fields = {"is_inner": is_inner, "by_symbol": by_symbol}
    return {"pipeline_class": type("Compiler", (OutermostCompiler,), fields)}


class OutermostCompiler(Compiler):  # type: ignore[misc]
    """Compiles a function that Python calls, with everything that it calls in turn."""

    is_inner: IsInner
    by_symbol: bool

    def compile_extra(self, function: Callable[..., Any]) -> CompileResult:
        codegen = self.state.targetctx.codegen()
        chooser = LibraryChooser(codegen, type(self).is_inner)
        named = _named(function, self.state.args, self.by_symbol)
        with _garbage_kept(), named, chooser, _outermost(codegen):
            result = super().compile_extra(function)
        _connect_environments(codegen, chooser.environments)
        if self.by_symbol:
            be_called(result, function)
        return result


def call_by_symbol(call: Callable[..., Any], loop: Any) -> None:
    """Let compiled code that calls ``call`` call the compiled ``loop``."""
    cpu_target.typing_context.insert_global(call, Dispatcher(loop))


def be_called(result: CompileResult, function: Callable[..., Any]) -> None:
    """Let other functions call this one by its symbol."""
    if isinstance(result.library, OutermostLibrary):
        where = function.__module__, function.__qualname__
        arguments = tuple(result.signature.args)
        result.library.itself = Needed(*where, arguments, result.fndesc.llvm_func_name)


def needed_by(result: CompileResult) -> list[Needed]:
    """What has to be there before this code is loaded."""
    return list(getattr(result.library, "needed", ()))


def load(target: Any, payload: Any, needed: Mapping[Needed, CompileResult]) -> CompileResult:
    """Code from a file, after all that it needs; KeyError if some of that is not there."""
    codegen = target.codegen()
    if not tried():
        return CompileResult._rebuild(target, *payload)
    for each in needed:
        if not codegen._engine.is_symbol_defined(each.symbol):
            raise KeyError(each.symbol)
    with _outermost(codegen):  # even while something else compiles
        result = CompileResult._rebuild(target, *payload)
    result.library.needed = {each: found.library for each, found in needed.items()}
    return result


@contextmanager
def _outermost(codegen: CPUCodegen) -> Iterator[None]:
    before = codegen._library_class
    codegen._library_class = OutermostLibrary
    try:
        yield
    finally:
        codegen._library_class = before


@contextmanager
def _named(function: Callable[..., Any], arguments: Any, by_symbol: bool) -> Iterator[None]:
    """Let the next function that Numba compiles be known by the same name in every process."""
    usual = FunctionIdentity._unique_ids
    if by_symbol:
        spelled = "\n".join(spell(arguments))
        digest = hashlib.sha256(spelled.encode()).hexdigest()[:16]

        def numbers() -> Iterator[Any]:
            FunctionIdentity._unique_ids = usual
            yield f"_{digest}"

        FunctionIdentity._unique_ids = numbers()
    try:
        yield
    finally:
        FunctionIdentity._unique_ids = usual


def spell(arguments: Any) -> Iterator[str]:
    """Types in words that are the same in every process, with the modules of their classes."""
    for kind in arguments:
        yield str(kind)
        cls = getattr(kind, "instance_class", None)
        if cls is not None:
            yield f"{cls.__module__}.{cls.__qualname__}"
            yield from spell(kind.types)


# --- libraries: what Numba calls the code of one function with what it links -------------------


class LibraryChooser(Listener):  # type: ignore[misc]
    """Gives inner functions an ``InnerLibrary``, and all others Numba's own.

    Numba compiles under a lock that all threads share: no other thread compiles meanwhile. An
    outermost function that another one calls by its symbol has a chooser of its own.
    """

    def __init__(self, codegen: CPUCodegen, is_inner: IsInner) -> None:
        self.environments: dict[str, Any] = {}
        self._codegen = codegen
        self._is_inner = is_inner
        self._classes: list[Any] = []
        self._inner = type("InnerLibrary", (InnerLibrary,), {"environments": self.environments})
        self._listening: Any = None

    def on_start(self, event: Event) -> None:
        if _choosers[-1] is self:
            inner = self._is_inner(event.data["dispatcher"].py_func)
            self._classes.append(self._codegen._library_class)
            self._codegen._library_class = self._inner if inner else JITCodeLibrary

    def on_end(self, event: Event) -> None:
        if _choosers[-1] is self:
            self._codegen._library_class = self._classes.pop()

    def __enter__(self) -> LibraryChooser:
        _choosers.append(self)
        self._listening = install_listener("numba:compile", self)
        self._listening.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._listening.__exit__(*problem)
        _choosers.pop()


_choosers: list[LibraryChooser] = []


class CallingLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Calls the loops that it needs by their symbols, and links everything else."""

    def __init__(self, codegen: CPUCodegen, name: str) -> None:
        super().__init__(codegen, name)
        self.needed: dict[Needed, OutermostLibrary] = {}

    def add_linking_library(self, library: Any) -> None:
        if isinstance(library, OutermostLibrary) and library.itself is not None:
            self.needed[library.itself] = library
        else:
            if isinstance(library, InnerLibrary):
                self.needed.update(library.needed)
            super().add_linking_library(library)

    def _link(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            inner = isinstance(library, InnerLibrary)
            module = library._final_module if inner else library._get_module_for_linking()
            self._final_module.link_in(module, preserve=True)
        self._linking_libraries.clear()


class OutermostLibrary(CallingLibrary):
    """The machine code of a function that Python calls."""

    #: for loops that are called by their symbol
    itself: Needed | None = None

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._link()
        super().finalize()

    def _get_module_for_linking(self) -> Any:
        """For users' functions, which copy all that they call, as in plain Numba."""
        return _with_needed(super()._get_module_for_linking(), self.needed)

    def serialize_using_object_code(self) -> Any:
        module = super()._get_module_for_linking()
        self._shared_module = None  # a copy of everything, which hardly anybody asks for again
        return self.name, "object", (self._get_compiled_object(), module.as_bitcode())


class InnerLibrary(CallingLibrary):
    """Intermediate code to be copied into callers: neither optimised nor emitted."""

    #: name -> environment of each inner function: what its errors refer to
    environments: dict[str, Any]

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._link()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"  # many modules may hold it
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        return _with_needed(self._final_module, self.needed)

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


def _with_needed(module: Any, needed: Mapping[Needed, OutermostLibrary]) -> Any:
    if not needed:
        return module
    whole = module.clone()
    for library in needed.values():
        whole.link_in(library._get_module_for_linking(), preserve=True)
    return whole


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
