"""The entry point of the program ``wfctl``: run the command line, and set the exit code."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from cli.version import print_version


def main() -> None:
    """Run the command line of this process, and end the process with the exit code."""
    # A stream that the caller closed is replaced by an empty one. This also keeps its descriptor
    # from being used for another file, such as the log.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - until the end
        elif mode == "w":
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    ended: list[int] = []
    atexit.register(_exit_without_shutdown, ended)
    ended.append(run(sys.argv[1:], is_only=True))
    if sys.flags.inspect:  # PYTHONINSPECT: Python would print a traceback of the exit
        atexit._run_exitfuncs()  # noqa: SLF001 - as Python does at its end
    sys.exit(ended[0])


def _exit_without_shutdown(ended: list[int]) -> None:
    """End the process immediately, without the normal shutdown of the Python interpreter.

    The shutdown would take a sixth of the time of a short command. ``ended`` contains the exit
    code.
    """
    if ended:
        with suppress(OSError):  # it is told in Python's own end
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended[0])


def run(arguments: list[str], *, is_only: bool = False) -> int:
    """Run one command line, and return its exit code.

    ``is_only`` states that this process runs no other command line.
    """
    try:
        arguments = _move_global_options_first(arguments)
        result = _find_call(arguments, is_only)()
        sys.stdout.flush()
    except BrokenPipeError:
        return _exit_code_of_closed_pipe()
    except SystemExit as ended:
        return _exit_code_of_system_exit(ended)
    except Exception as error:  # noqa: BLE001 - the last place: every error has an exit code
        from cli.frame.failure import report_error

        try:
            sys.stdout.flush()
        except OSError:  # it takes no more, the envelope of an error neither
            _redirect_stdout_to_null()
            return report_error(error, [])
        try:
            return report_error(error, arguments)
        except BrokenPipeError:
            return _exit_code_of_closed_pipe()
        except OSError:
            _redirect_stdout_to_null()
            return report_error(error, [])
    except KeyboardInterrupt:
        print("interrupted; all recorded changes are kept", file=sys.stderr)
        return 130
    return result if isinstance(result, int) else 0


def _move_global_options_first(arguments: list[str]) -> list[str]:
    if arguments == ["--version"]:
        return arguments  # without the import
    from cli.frame.options import move_global_options_first

    return move_global_options_first(arguments)


def _find_call(arguments: list[str], is_only: bool) -> Callable[[], Any]:
    """Return a function that calls the command of a command line."""
    if arguments == ["--version"]:
        return print_version
    # Disable garbage collection during the imports. It would find almost nothing, and takes a tenth
    # of the start time.
    gc.disable()
    try:
        from cli.program.plain_calls import NotPlain, find_plain_call
        from cli.program.pydantic_plugins import disable_pydantic_plugin_search

        disable_pydantic_plugin_search()
        try:
            return find_plain_call(arguments)
        except NotPlain:
            return partial(_call_with_typer, arguments)
    finally:
        # Exclude the imported objects from later garbage collection. Do this only for a single
        # command, because a process for many commands would never free the garbage of each.
        if is_only:
            gc.freeze()
        gc.enable()


def _call_with_typer(arguments: list[str]) -> Any:
    from cli.program.tree import build_program

    return build_program().main(arguments, "wfctl", standalone_mode=False)


def _exit_code_of_system_exit(ended: SystemExit) -> int:
    """Return the exit code of a command that ended with SystemExit.

    The cause may be a signal. If the reader of stdout has closed the pipe, return the code of
    SIGPIPE.
    """
    if isinstance(ended.__context__, BrokenPipeError):
        return _exit_code_of_closed_pipe()
    return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


def _exit_code_of_closed_pipe() -> int:
    """Return the exit code of a program whose output pipe was closed by its reader.

    This is 128 plus the number of SIGPIPE, as for git and kubectl.
    """
    _redirect_stdout_to_null()
    return 128 + signal.SIGPIPE


def _redirect_stdout_to_null() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
