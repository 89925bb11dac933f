"""Install each contender into a virtual environment of its own."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.faults import contenders
from benchmarks.faults.game import Adapter

#: Default folder of the virtual environments.
ENVIRONMENTS = Path.home() / ".cache" / "wfctl-faults"


def list_contenders() -> list[str]:
    """Return the module names of all adapters, sorted, with wfctl first."""
    names = [module.name for module in pkgutil.iter_modules(contenders.__path__)]
    return sorted(names, key=lambda name: (name != "wfctl", name))


def load_adapter(name: str) -> Adapter:
    """Return the adapter with the module name `name`. Raises ModuleNotFoundError."""
    module: Adapter = importlib.import_module(f"benchmarks.faults.contenders.{name}")
    return module


def install(adapter: Adapter, name: str, folder: Path) -> str:
    """Return the Python of a contender, and install its packages if this has not been done.

    Raises subprocess.CalledProcessError if pip fails.
    """
    if not adapter.PACKAGES:
        return sys.executable
    place = folder / name
    python = place / "bin" / "python"
    receipt, content = place / "installed.txt", "\n".join(adapter.PACKAGES)
    if not receipt.exists() or receipt.read_text() != content:
        venv.create(place, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", *adapter.PACKAGES]
        subprocess.run(pip, check=True)
        receipt.write_text(content)
    return str(python)


def find_version(adapter: Adapter, python: str) -> str:
    """Return the version of a contender: its own answer, its first package, or wfctl."""
    find_own = getattr(adapter, "find_version", None)
    if find_own:
        return str(find_own(python))
    if not adapter.PACKAGES:
        package = "wfctl-eventstore"
    else:
        package = adapter.PACKAGES[0].partition("==")[0].partition("[")[0]
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
