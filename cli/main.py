"""The program ``wfctl``: arguments in, exit code out."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the command line and leave with the exit code of the contract."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until the end
        else:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    ended: list[int] = []
    atexit.register(_end_at_once, ended)
    ended.append(run(sys.argv[1:], is_only=True))
    if sys.flags.inspect:  # PYTHONINSPECT: Python would print a traceback of the exit
        atexit._run_exitfuncs()  # noqa: SLF001 - as Python does at its end
    sys.exit(ended[0])


def _end_at_once(ended: list[int]) -> None:
    """Leave Python as it stands: taking it apart would be a sixth of a short command."""
    if ended:
        with suppress(OSError):  # it is told in Python's own end
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended[0])


def run(arguments: list[str], *, is_only: bool = False) -> int:
    """Carry out one command line and return its exit code; ``is_only``: of this process's life."""
    try:
        command, hoist = _program(is_only)
        arguments = hoist(arguments)
        result = command(args=arguments, prog_name="wfctl", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as ended:
        return _left(ended)
    except Exception as error:  # noqa: BLE001 - the last place: every error has an exit code
        from cli.frame.failure import report_error

        try:
            sys.stdout.flush()
        except OSError:  # it takes no more, the envelope of an error neither
            _give_up_stdout()
            return report_error(error, [])
        try:
            return report_error(error, arguments)
        except BrokenPipeError:
            return _reader_gone()
        except OSError:
            _give_up_stdout()
            return report_error(error, [])
    except KeyboardInterrupt:
        print("interrupted; all recorded changes are kept", file=sys.stderr)
        return 130
    return result if isinstance(result, int) else 0


def _program(is_only: bool) -> tuple[Callable[..., Any], Callable[[list[str]], list[str]]]:
    """Return the program, and what brings the options of every command to the front."""
    # Imports leave no garbage worth looking for, and looking takes a tenth of the start.
    gc.disable()
    try:
        from cli.frame.options import move_global_options_first
        from cli.program.tree import build_program, search_no_plugins

        search_no_plugins()
        return build_program(), move_global_options_first
    finally:
        # In a process of many commands it would keep the garbage of each for good.
        if is_only:
            gc.freeze()
        gc.enable()


def _left(ended: SystemExit) -> int:
    """Return the code of what ended the command: a signal, or, by typer, a reader that is gone."""
    if isinstance(ended.__context__, BrokenPipeError):
        return _reader_gone()
    return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


def _reader_gone() -> int:
    """Return what a shell shows for a program that its reader left, git and kubectl included."""
    _give_up_stdout()
    return 128 + signal.SIGPIPE


def _give_up_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
