"""Start wfctl, or one module of wfctl, with its own packages first on the search path.

A wheel keeps these packages in the folder ``app`` of this package, a repository beside this
package. So an installation adds one name to site-packages, and no file of the user or of another
distribution, such as ``cli.py`` or ``agents/``, can take the place of a package of wfctl.
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
