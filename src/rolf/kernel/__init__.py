"""One definition, two ways to run it: as Python online, compiled in simulations.

Algorithm code is written once, as plain functions over arrays and NamedTuples:

* ``@kernel`` declares an operation (choose, update, ...) that finds its body by the class of
  its first argument; ``implement(Params, {operation: body, ...})`` is the table of the bodies
  that belong to a class.
* ``@shared`` marks a helper that kernels call.
* ``@primitive(loops)`` marks a whole-array NumPy helper whose compiled form is the loop
  ``loops``: a matrix product or a rank-one update, never an algorithm.
* ``@looped`` marks code that is a scalar loop by nature; online calls go to the compiled
  function too.
* ``borrowed(arrays)`` spares compiled code the counting of references to its arguments.

Python calls run the functions as they stand, without Numba. ``compiled`` hands out the Numba
version of a function; ``cache.py`` keeps it on disk between processes.
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
