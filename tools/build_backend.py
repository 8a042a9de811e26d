"""scikit-build-core, which pip calls to build the package; and a line on the terminal now and then that says how far the compiler
is, since pip shows nothing of a build, and this one takes minutes. Without a terminal nothing is different."""

import contextlib
import os
import re
import threading

from scikit_build_core import build as _backend
from scikit_build_core.build import *  # noqa: F403: the hooks that pip asks for

TENTHS = 10


def _forward(source, to, terminal):
    """Every line of Ninja's goes where it went; of those that begin with [12/74], ten also to the terminal."""
    told = 0
    with os.fdopen(source, "rb") as lines:
        for line in lines:
            os.write(to, line)
            steps = re.match(rb"\[(\d+)/(\d+)\]", line)
            tenths = TENTHS * int(steps[1]) // int(steps[2]) if steps else 0
            if tenths > told:
                told = tenths
                terminal.write(f"\r\n  polyhead: compiled {int(steps[1])} of {int(steps[2])} files ")
                terminal.flush()


@contextlib.contextmanager
def _saying_how_far():
    with contextlib.ExitStack() as stack:
        try:
            terminal = stack.enter_context(open("/dev/tty", "w"))
        except OSError:
            terminal = None
        if terminal is None:
            yield
            return
        usual = os.dup(1)
        source, sink = os.pipe()
        os.dup2(sink, 1)
        os.close(sink)
        reader = threading.Thread(target=_forward, args=(source, usual, terminal))
        reader.start()
        try:
            yield
        finally:
            os.dup2(usual, 1)  # the last end of the pipe: the reader comes to an end
            reader.join()
            os.close(usual)


def build_wheel(*arguments, **named):
    with _saying_how_far():
        return _backend.build_wheel(*arguments, **named)
