"""The diagnostic submission: the stage's own, changed so that log and err come back.

Level 2 of the published convention. The original submission stays as it is.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any

from reconciler.attempt.paths import AttemptPaths
from reconciler.submission.build import ERROR_LOG, OUTPUT_LOG
from service.root.disk import write_whole

FILE_NAME = "submission.diagnostic.json"
#: What the job writes of the command's end, as its own is always 0.
_TOLD = "diagnostic run: exit code "
CODE_LINE = re.compile(rf"^{_TOLD}(\d+)$", re.MULTILINE)


def kept_diagnostic(attempt: AttemptPaths, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the diagnostic form of a submission, once it is written beside the original."""
    found = diagnostic_of(given)
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    write_whole(attempt.stage_folder / FILE_NAME, text.encode())
    return found


def diagnostic_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a submission that brings back log and err alone.

    DPDispatcher brings nothing back of a task that failed, so the task ends with 0 and writes its
    exit code on stderr.
    """
    result = copy.deepcopy(dict(given))
    result["backward_common_files"] = []
    for task in result.get("task_list", []):
        task["backward_files"] = [OUTPUT_LOG, ERROR_LOG]
        task["outlog"], task["errlog"] = OUTPUT_LOG, ERROR_LOG
        task["command"] = f'( {task["command"]}\n); echo "{_TOLD}$?" >&2'
    return result
