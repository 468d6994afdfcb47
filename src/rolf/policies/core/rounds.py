"""The inputs of a round: the arms to choose from, and their features.

Features may be derived from a context that all arms of a round share, such as the user. An arm with
features x (d,) in a context c (m,) has the features

    (x, c_1, c_1 x, ..., c_m, c_m x),

the products of (1, c) and (1, x) without the constant: d + m + d m columns. So the reward may
depend on the arm, on the context, and on their interaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.table import number_table
from rolf.checks import MAX_FEATURE
from rolf.errors import InvalidArgument
from rolf.text import first_few
from rolf.types import FloatArray, IntArray

#: the most entries of a context, and the most features derived from them
MAX_ENTRIES = 1000
MAX_COLUMNS = 1000


class Round(NamedTuple):
    """The checked inputs of a decision: positions of the available arms, ascending, and the
    features (K, d) of all arms."""

    available: IntArray
    features: FloatArray


class Context:
    """The names of a context's entries, and the features derived from it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)

    @classmethod
    def read(cls, option: Any) -> Context | None:
        """The context named by a policy's option ``context``: names, a number of entries, or
        None."""
        if option is None:
            return None
        if isinstance(option, int | np.integer) and not isinstance(option, bool):
            if 1 <= option <= MAX_ENTRIES:
                return cls([str(place) for place in range(option)])
        elif isinstance(option, list | tuple) and 1 <= len(option) <= MAX_ENTRIES:
            named = all(isinstance(each, str) and each and each.isprintable() for each in option)
            if named and len(set(option)) == len(option):
                return cls(option)
        expected = f"the names of 1 to {MAX_ENTRIES} entries, each once, or their number"
        raise InvalidArgument("context", option, expected)

    def size(self, columns: int) -> int:
        """The number of features in a context, for arms with ``columns`` features."""
        size = (columns + 1) * (len(self.names) + 1) - 1
        if size > MAX_COLUMNS:
            got = f"{len(self.names)} entries, which make {size} features with {columns} of an arm"
            raise InvalidArgument("context", got, f"at most {MAX_COLUMNS} features")
        return size

    def vector(self, context: Any, argument: str = "context") -> FloatArray:
        """The entries of one context, in order, from a mapping by name, a Series, or a list."""
        contexts = None if context is None else [context]
        vector: FloatArray = self.table(contexts, argument)[0]
        return vector

    def table(self, contexts: Any, argument: str = "context") -> FloatArray:
        """The entries of several contexts, (n, m), from a DataFrame, a list of contexts, or an
        array."""
        if contexts is None:
            raise InvalidArgument(argument, None, self.words)
        if hasattr(contexts, "columns") and hasattr(contexts, "to_numpy"):
            self._check_names(list(contexts.columns), argument)
            return number_table(contexts[self.names].to_numpy(), argument)
        if not hasattr(contexts, "ndim"):
            contexts = [self._ordered(each, argument) for each in contexts]
        try:
            return number_table(contexts, argument, columns=len(self.names))
        except InvalidArgument as error:
            raise InvalidArgument(argument, error.got, f"{self.words}; {error.wanted}") from None

    @property
    def words(self) -> str:
        """What a context consists of, in words."""
        return f"a context, finite numbers for {first_few(self.names)}"

    def _ordered(self, context: Any, argument: str) -> Any:
        if hasattr(context, "to_dict"):
            context = context.to_dict()
        if not isinstance(context, Mapping):
            if isinstance(context, str | bytes) or not hasattr(context, "__len__"):
                raise InvalidArgument(argument, context, self.words)
            if len(context) != len(self.names):
                got = f"{len(context)} entries"
                raise InvalidArgument(argument, got, f"{len(self.names)}: {self.words}")
            return list(context)
        self._check_names(list(context), argument)
        return [context[name] for name in self.names]

    def _check_names(self, names: list[Any], argument: str) -> None:
        if set(names) != set(self.names):
            missing = [name for name in self.names if name not in names]
            unknown = [name for name in names if name not in self.names]
            problems = [f"without {', '.join(missing)}"] * bool(missing)
            problems += [f"with {', '.join(map(str, unknown))}"] * bool(unknown)
            raise InvalidArgument(argument, " and ".join(problems), self.words)

    def features(self, rows: FloatArray, contexts: FloatArray) -> FloatArray:
        """The features (n, D) of arms with features ``rows`` (n, d), each in its context (n, m)."""
        ones = np.ones((rows.shape[0], 1))
        arm = np.hstack([ones, rows])
        both = np.hstack([np.ones((contexts.shape[0], 1)), contexts])
        products = both[:, :, None] * arm[:, None, :]
        table: FloatArray = np.ascontiguousarray(products.reshape(rows.shape[0], -1)[:, 1:])
        if (np.abs(table) > MAX_FEATURE).any():
            expected = f"entries whose products with features are at most {MAX_FEATURE:g}"
            raise InvalidArgument("context", float(np.abs(contexts).max()), expected)
        return table

    def of_all(self, arms: FloatArray, context: FloatArray) -> FloatArray:
        """The features (K, D) of all arms in one context."""
        return self.features(arms, np.tile(context, (arms.shape[0], 1)))

    def typical(self, arms: FloatArray) -> FloatArray:
        """The features (K, D) in a context of ones, the recommended size of entries."""
        self.size(arms.shape[1])  # raises if there are too many
        return self.of_all(arms, np.ones(len(self.names)))
