"""The program ``wfctl``: arguments in, exit code out."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from cli.hoist import hoist


def main() -> None:
    """Run the command line and leave with the exit code of the contract."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Carry out one command line and return its exit code."""
    arguments = hoist(arguments)
    try:
        command = _command(arguments)
        result = command(args=arguments, prog_name="wfctl", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # typer turns the one into the other
        return _reader_gone()
    except Exception as error:  # noqa: BLE001 - the last place: every error has an exit code
        return _reported(error, arguments)
    except KeyboardInterrupt:
        print("interrupted; what was recorded stays recorded", file=sys.stderr)
        return 130
    return result if isinstance(result, int) else 0


def _command(arguments: list[str]) -> Callable[..., Any]:
    # Imports leave no garbage worth looking for, and looking takes a tenth of the start.
    gc.disable()
    try:
        from typer.main import get_command

        from cli.app import build

        return get_command(build(arguments)).main
    finally:
        gc.freeze()
        gc.enable()


def _reader_gone() -> int:
    """Return what a shell shows for a program that its reader left, git and kubectl included."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _reported(error: Exception, arguments: list[str]) -> int:
    from cli.failure import report

    try:
        return report(error, arguments)
    except BrokenPipeError:
        return _reader_gone()


if __name__ == "__main__":
    main()
