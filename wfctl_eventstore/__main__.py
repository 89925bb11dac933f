"""Start wfctl or one of its modules, with wfctl's own packages first on the import path.

In an installed wheel these packages are in the subfolder ``app``; in a repository they are next to
this package. The installation thus adds only one name to site-packages. A user's file or another
distribution's module, such as ``cli.py`` or ``agents/``, cannot replace a package of wfctl.
"""

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is slow to load


def main() -> None:
    """Run the command line of wfctl with the arguments of this process, and exit."""
    _add_application()
    from cli.main import main as run_command_line

    run_command_line()


def run_module(module: str, arguments: list[str]) -> None:
    """Run a module of wfctl as the main program of this process, with the given arguments."""
    from runpy import run_module as run

    _add_application()
    sys.argv[1:] = arguments
    run(module, run_name="__main__", alter_sys=True)


def _add_application() -> None:
    app = os.path.join(_HERE, "app")  # noqa: PTH118 - as above
    sys.path.insert(0, app if os.path.isdir(app) else os.path.dirname(_HERE))  # noqa: PTH112, PTH120


if __name__ == "__main__":
    if sys.argv[1:2] == ["-m"]:  # by a process of wfctl, which starts another
        run_module(sys.argv[2], sys.argv[3:])
    else:
        main()
