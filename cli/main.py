"""The program ``wfctl``: arguments in, exit code out."""

from __future__ import annotations

import os
import sys

from cli.hoist import hoist


def main() -> None:
    """Run the command line and leave with the exit code of the contract."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Carry out one command line and return its exit code."""
    from typer.main import get_command

    from cli.app import build

    arguments = hoist(arguments)
    try:
        result = get_command(build()).main(args=arguments, prog_name="wfctl", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - the last place: every error has an exit code
        return _report(error, arguments)
    except KeyboardInterrupt:
        print("interrupted; what was recorded stays recorded", file=sys.stderr)
        return 130
    return result if isinstance(result, int) else 0


def _report(error: Exception, arguments: list[str]) -> int:
    from cli.failure import report

    return report(error, arguments)


if __name__ == "__main__":
    main()
