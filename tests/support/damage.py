"""Saved states, damaged at random: bits, shapes, types, numbers, keys, generators."""

from __future__ import annotations

import base64
import copy
import math

import numpy as np

#: replacements for numbers and for anything else
NUMBERS = (
    *(-1, 0, 1, 7, 624, 625, 2**31, 2**53 + 1, 2**62, 2**63, 2**64, 10**30, 10**400, -(2**63)),
    *(-1.5, 0.5, 1e70, 1e101, -1e101, 1e200, 1e308, -1e308, 5e-324),
    *(math.nan, math.inf, -math.inf),
)
OTHERS = (None, True, False, "", "x", "-1", "nan", "1e999", "9" * 50, [], {}, [[]], [1, "x"])
KINDS = ("<f8", "<i8", ">f8", ">i8", "<f4", "<u8", "<f16", "|O", "V8", "<M8[s]", "S8", "f8,i8", "")


def damaged(state, rng):
    """A copy of a saved state with one to three faults."""
    data = copy.deepcopy(state)
    for _ in range(rng.randint(1, 3)):
        rng.choice(FAULTS)(data, rng)
    return data


def flip_bits(data, rng):
    packed = a_packed_array(data, rng)
    if packed is not None and (raw := bytearray(base64.b64decode(packed[2]))):
        for _ in range(rng.randint(1, 3)):
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        packed[2] = base64.b64encode(bytes(raw)).decode()


def swap_entry(data, rng):
    """Put another number of the same type into an array."""
    packed = a_packed_array(data, rng)
    if packed is None or packed[0] not in ("<f8", "<i8"):
        return
    values = np.frombuffer(base64.b64decode(packed[2]), dtype=packed[0]).copy()
    number = rng.choice(NUMBERS)
    if values.size and packed[0] == "<f8":
        values[rng.randrange(values.size)] = min(max(number, -1.7e308), 1.7e308)
    elif values.size and abs(number) < 1e300:
        values[rng.randrange(values.size)] = min(max(int(number), -(2**63)), 2**63 - 1)
    packed[2] = base64.b64encode(values.tobytes()).decode()


def change_layout(data, rng):
    """Change the type or the shape of an array."""
    packed = a_packed_array(data, rng)
    if packed is None:
        return
    if rng.random() < 0.5:
        packed[0] = rng.choice(KINDS)
    else:
        packed[1] = rng.choice(([], [1], [-1], [2, 3], [0], [10**12], [10**30], "x", [1.5], None))


def swap_leaf(data, rng):
    """Replace any value by something else."""
    holder, key = a_place(data, rng)
    if holder is not None:
        holder[key] = rng.choice(NUMBERS) if rng.random() < 0.6 else rng.choice(OTHERS)


def drop(data, rng):
    holder, key = a_place(data, rng)
    if holder is not None:
        del holder[key]


def duplicate(data, rng):
    """Repeat a value, in a list or under another name."""
    holder, key = a_place(data, rng)
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif isinstance(holder, dict):
        name = rng.choice((f"{key}.T", f"{key} ", "__class__", "clock.base", "belief", f"{key}-1"))
        holder[name] = copy.deepcopy(holder[key])


def move(data, rng):
    """Copy a value to another place."""
    (one, first), (two, second) = a_place(data, rng), a_place(data, rng)
    if one is not None and two is not None:
        two[second] = copy.deepcopy(one[first])


def damage_generator(data, rng):
    """Put in another generator, with numbers in and out of range."""
    kind = rng.choice(("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"))
    state = as_text(getattr(np.random, kind)(3).state)
    for _ in range(rng.randint(0, 2)):
        holder, key = a_place(state, rng)
        if holder is not None:
            holder[key] = rng.choice(("0", "1", "4", "5", "100000000", str(2**64), "-1", "x", 3))
    data["rng"] = state


FAULTS = (
    *(flip_bits, flip_bits, swap_entry, swap_entry, change_layout, swap_leaf, swap_leaf),
    *(drop, duplicate, move, damage_generator),
)


def as_text(value):
    if isinstance(value, dict):
        return {key: as_text(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return [str(int(each)) for each in value]
    return value if isinstance(value, str) else str(int(value))


def a_packed_array(data, rng):
    arrays = data.get("state")
    packed = [each for each in arrays.values() if is_packed(each)] if is_dict(arrays) else []
    return rng.choice(packed) if packed else None


def is_dict(value):
    return isinstance(value, dict)


def is_packed(value):
    if not (isinstance(value, list) and len(value) == 3 and isinstance(value[2], str)):
        return False
    try:
        return len(base64.b64decode(value[2])) % 8 == 0
    except ValueError:
        return False


def a_place(data, rng):
    """A random container and one of its keys."""
    holder = data
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return None, None
        key = rng.choice(keys)
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            return holder, key
        holder = inner
