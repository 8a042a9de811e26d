"""Numbers among the arguments, checked where they come in."""

import math
from numbers import Real
from typing import Any

from ._errors import DTypeError, InvalidValueError


def number(value: Any, name: str) -> float:
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DTypeError(f"{name}: expected a number, found {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:  # of a whole number or a fraction
        return math.inf if value >= 0 else -math.inf  # type: ignore[operator]


def whole(value: Any, name: str, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    try:
        found = value.__index__()
    except (AttributeError, TypeError):
        raise DTypeError(f"{name}: expected a whole number, found {type(value).__name__}") from None
    if not least <= found <= most:
        raise InvalidValueError(f"{name}: expected {least} to {most}, found {found}")
    return found


def seed(value: Any, name: str) -> int:
    return whole(value, name, 0, 2**64 - 1)


def natural(value: Any, name: str) -> int:
    return whole(value, name, 0)


def flag(value: Any, name: str) -> bool:
    if value is True or value is False:
        return value
    if type(value).__name__ not in ("bool_", "bool"):  # NumPy's
        raise DTypeError(f"{name}: expected True or False, found {type(value).__name__}")
    return bool(value)


def is_zero(value: Any) -> bool:
    """Whether it is a number, and 0."""
    return isinstance(value, (int, float)) and value == 0 and type(value) is not bool
