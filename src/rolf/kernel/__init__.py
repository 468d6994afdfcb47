"""One definition that runs in two ways: as Python online, compiled in simulations.

Algorithm code is written once, as plain functions over arrays and NamedTuples:

* ``@kernel`` declares an operation (decide, observe, ...) that finds its body by the class of its
  first argument; ``implement(Params, {operation: body, ...})`` registers a class's bodies.
* ``@shared`` marks a helper that kernels call.
* ``@primitive(loops)`` marks a whole-array NumPy helper whose compiled form is the loop
  ``loops``: a matrix product or a rank-one update, never an algorithm.
* ``@looped`` marks a scalar loop; online calls run its compiled form, too.
* ``borrowed(arrays)`` lets compiled code skip reference counting for its arguments.

Python calls run the plain functions, without Numba. ``compiled`` returns the Numba version of a
function; ``disk_cache.py`` keeps it on disk between processes.
"""

from rolf.kernel.dispatch import (
    body_of,
    borrowed,
    compiled,
    has_body,
    implement,
    implements,
    kernel,
    looped,
    primitive,
    shared,
)

__all__ = [
    "body_of",
    "borrowed",
    "compiled",
    "has_body",
    "implement",
    "implements",
    "kernel",
    "looped",
    "primitive",
    "shared",
]
