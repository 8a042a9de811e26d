"""The library's errors as Python's."""


class Error(Exception):
    """What the library refuses, in its words: what, where, expected and found."""


class ShapeError(Error, ValueError):
    """Sizes that do not match."""


class DTypeError(Error, TypeError):
    """An element type that the call does not take here."""


class LayoutError(Error, ValueError):
    """Strides, alignment, overlapping or missing memory."""


class InvalidValueError(Error, ValueError):
    """A number out of range."""


class UnsupportedError(Error, NotImplementedError):
    """A combination that no backend offers."""


class DeviceError(Error, RuntimeError):
    """No such device in this build or machine."""


class OutOfMemoryError(Error, MemoryError):
    """Not enough memory."""


class InputError(Error, ValueError):
    """A file that is not what it should be."""


class IOError(Error, OSError):  # noqa: A001: within this package
    """The file system refused."""


class InternalError(Error, RuntimeError):
    """A defect of the library."""


_BY_STATUS = (
    None,
    ShapeError,
    DTypeError,
    LayoutError,
    InvalidValueError,
    UnsupportedError,
    DeviceError,
    OutOfMemoryError,
    InputError,
    IOError,
    InternalError,
)


# Where an argument has another name in C++.
_NAMES = (
    ("Align::", "align="),
    ("[attend] output", "[attend] out"),
    ("first_positions", "first_position"),
    ("weight_heads", "heads"),
    ("weight_rows", "rows"),
    ("weights = true", "weights=True"),
)


def raise_for(status, message):
    for name, ours in _NAMES:
        message = message.replace(name, ours)
    raise _BY_STATUS[status if 0 < status < len(_BY_STATUS) else -1](message)
