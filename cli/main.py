"""The program ``wfctl``: arguments in, exit code out."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.hoist import hoist


def main() -> None:
    """Run the command line and leave with the exit code of the contract."""
    _open_streams()
    sys.exit(run(sys.argv[1:]))


def _open_streams() -> None:
    """Print UTF-8 in every locale, as git and kubectl do, and to nobody what nobody listens to."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until the end
        else:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


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
    _give_up_stdout()
    return 128 + signal.SIGPIPE


def _give_up_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reported(error: Exception, arguments: list[str]) -> int:
    from cli.failure import report

    try:
        sys.stdout.flush()
    except OSError:  # it takes no more, the envelope of an error neither
        _give_up_stdout()
        return report(error, [])
    try:
        return report(error, arguments)
    except BrokenPipeError:
        return _reader_gone()
    except OSError:
        _give_up_stdout()
        return report(error, [])


if __name__ == "__main__":
    main()
