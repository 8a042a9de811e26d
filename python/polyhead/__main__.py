"""`python -m polyhead` is the command `polyhead`, which a wheel brings along."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def command() -> "str | None":
    """Where pip has put the command: beside this Python, in the user's own folder, or in that of `pip install --target`."""
    user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    for folder in (sysconfig.get_path("scripts"), user, str(Path(__file__).resolve().parents[1] / "bin")):
        found = shutil.which("polyhead", path=folder)
        if found:
            return found
    return shutil.which("polyhead")


def main() -> None:
    found = command()
    if found is None:
        sys.exit("python -m polyhead: expected the command polyhead beside this Python or on the PATH, found neither; pip install it again")
    os.execv(found, ["polyhead", *sys.argv[1:]])


if __name__ == "__main__":
    main()
