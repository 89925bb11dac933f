"""A process with the real DPDispatcher loaded, which runs each submission in a fork.

Each line of stdin is a request in JSON with the keys file, folder, log and path. The process prints
the exit code of each submission. Pauses between tries are skipped.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from typing import Any

#: Seconds to wait before a hanging submission is stopped.
_PATIENCE = 60


def main() -> None:
    """Serve submission requests until stdin ends."""
    # DPDispatcher writes to the current folder and the home folder when it is imported.
    from dpdispatcher.entrypoints.submit import submit

    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _serve(submit, request)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _serve(submit: Any, request: dict[str, str]) -> None:
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(request["folder"])
    os.environ["PATH"] = request["path"]
    time.sleep = lambda _: None
    signal.alarm(_PATIENCE)
    code = 0
    try:
        submit(filename=request["file"], exit_on_submit=True)
    except BaseException:  # noqa: BLE001 - as an interpreter ends: the traceback, then 1
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
