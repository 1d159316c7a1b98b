"""What every statement needs before its formula: one array namespace."""

from __future__ import annotations

from typing import Any

import array_api_compat

Array = Any  # a NumPy, JAX or PyTorch array, or a Python number
Namespace = Any  # the module of array functions that belongs to an array


def promote(*arguments: Array) -> tuple[Any, ...]:
    """The array namespace of the arguments, followed by the arguments as floating arrays of it.
    Python numbers and NumPy arrays join whatever other library is present, so that a NumPy oracle
    can meet traced JAX attention; with nothing but Python numbers the namespace is NumPy."""
    arrays = [x for x in arguments if not isinstance(x, (bool, int, float, list, tuple))]
    foreign = [x for x in arrays if not array_api_compat.is_numpy_array(x)]
    if arrays:
        xp = array_api_compat.array_namespace(*(foreign or arrays))
    else:
        import array_api_compat.numpy as xp
    dtypes = [x.dtype for x in foreign or arrays if xp.isdtype(x.dtype, "real floating")]
    dtype = xp.result_type(*dtypes) if dtypes else xp.asarray(0.0).dtype

    placement = _placement(xp, foreign[0]) if foreign else {}

    def convert(x: Array) -> Array:
        known = isinstance(x, (bool, int, float, list, tuple))
        if known or (foreign and array_api_compat.is_numpy_array(x)):
            return xp.asarray(x, dtype=dtype, **placement)
        return x if xp.isdtype(x.dtype, "real floating") else xp.astype(x, dtype)

    return xp, *(convert(x) for x in arguments)


def _placement(xp: Namespace, like: Array) -> dict[str, Any]:
    """Where to create a new array: JAX places it by itself, PyTorch has to be told."""
    return {"device": like.device} if array_api_compat.is_torch_namespace(xp) else {}


def select(xp: Namespace, positions: int, place: Any, like: Array) -> Array:
    """Mask (..., T), true at `place`, which is one integer or an integer array (...)."""
    placement = _placement(xp, like)
    return xp.arange(positions, **placement) == xp.asarray(place, **placement)[..., None]


def is_known(*values: Array) -> bool:
    """Whether the values are plain numbers, which can be checked without breaking a trace."""
    return all(isinstance(value, (int, float)) for value in values)
