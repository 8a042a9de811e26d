"""attn_implementation="polyhead" in transformers from `import polyhead` on, which imports neither transformers nor torch for it."""

import importlib
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Optional, Sequence

_WHERE = "transformers.modeling_utils"  # every model's base class, and the table of implementations, are here


class _Watch:
    """A finder of modules: waits until somebody imports this one, and registers us after it has run."""

    def find_spec(self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None) -> Any:
        if name != _WHERE:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_register(module: ModuleType) -> None:
                run(module)
                _register()

            spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec


def _register():
    try:
        importlib.import_module("polyhead.transformers")
    except ImportError:  # transformers that are older than its interface of attention; importing it by name says so
        pass


def when_transformers_come() -> None:
    if _WHERE in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _Watch())  # type: ignore[arg-type]
