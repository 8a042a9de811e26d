"""Numbers among the arguments, checked where they come in."""

import math
from numbers import Real

from ._errors import DTypeError, InvalidValueError


def number(value, name):
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DTypeError(f"{name}: expected a number, found {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def whole(value, name, least=-(2**63), most=2**63 - 1):
    try:
        found = value.__index__()
    except (AttributeError, TypeError):
        raise DTypeError(f"{name}: expected a whole number, found {type(value).__name__}") from None
    if not least <= found <= most:
        raise InvalidValueError(f"{name}: expected {least} to {most}, found {found}")
    return found


def natural(value, name):
    return whole(value, name, 0)


def flag(value, name):
    if value is True or value is False:
        return value
    if type(value).__name__ not in ("bool_", "bool"):  # NumPy's
        raise DTypeError(f"{name}: expected True or False, found {type(value).__name__}")
    return bool(value)


def is_zero(value):
    """Whether it is a number, and 0."""
    return isinstance(value, (int, float)) and value == 0
