"""Stops a real dpdisp once at an armed pause point, until it is released.

`Pauses` copies this file as ``sitecustomize.py`` into a folder of PYTHONPATH, so every Python
process of the test imports it. Only ``dpdisp submit`` installs the pause points.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
_sleep = time.sleep


def pause(point: str) -> None:
    """Wait at an armed point. The first program that arrives disarms it."""
    try:
        (FOLDER / f"{point}.armed").rename(FOLDER / f"{point}.at")
    except FileNotFoundError:
        return
    while not (FOLDER / f"{point}.go").exists():
        time.sleep(0.01)


def _before(point: str, method: Callable[..., Any], when: Callable[[Any], bool]) -> Any:
    @wraps(method)
    def paused(self: Any, *args: Any, **kwargs: Any) -> Any:
        if when(self):
            pause(point)
        return method(self, *args, **kwargs)

    return paused


def _after(point: str, method: Callable[..., Any]) -> Any:
    @wraps(method)
    def paused(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        pause(point)
        return result

    return paused


def _always(_: Any) -> bool:
    return True


def _has_submitted(submission: Any) -> bool:
    return any(job.job_id for job in submission.belonging_jobs)


def install() -> None:
    """Add the pause points to DPDispatcher, which otherwise works normally."""
    from dpdispatcher.submission import Submission

    Submission.upload_jobs = _before("upload", Submission.upload_jobs, _always)
    plain = Submission.submission_to_json
    Submission.submission_to_json = _after("recorded", _before("record", plain, _has_submitted))
    plain = Submission.try_download_result
    Submission.try_download_result = _before("download", plain, _always)
    # After an error, DPDispatcher waits a minute before it tries again, which is too long here.
    time.sleep = lambda seconds: _sleep(1 if float(seconds) >= 60 else seconds)
    Submission.clean_jobs = _after("cleaned", Submission.clean_jobs)


if os.path.basename(__file__) == "sitecustomize.py" and (  # noqa: PTH119 - every Python pays
    any(word.endswith("/dpdisp") for word in sys.orig_argv) and "submit" in sys.orig_argv
):
    install()
