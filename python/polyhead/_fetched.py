"""Models that `polyhead get` has fetched: where the command keeps them (cli/fetched.cpp)."""

import os
from pathlib import Path
from typing import Union


def model_meant(path: Union[str, os.PathLike]) -> Union[str, os.PathLike]:
    """A path as it is; the name of a fetched model, "smollm2" or "hf:ORG/NAME", as the path of its folder or only file."""
    name = path if isinstance(path, str) else ""
    if not name or "\0" in name or os.path.lexists(name) or name.startswith((".", "/")):
        return path
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    cache = Path(os.environ.get("POLYHEAD_CACHE") or os.path.join(home, "polyhead"))
    folder = cache / "hf" / name[3:] if name.startswith("hf:") else cache / name
    if not folder.is_dir():
        return path
    files = sorted(folder.glob("*.gguf"))
    return files[0] if len(files) == 1 else folder
