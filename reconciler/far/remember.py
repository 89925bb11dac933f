"""Writes down for DPDispatcher what it submitted, where it died before it could.

Run as a process of its own by `start.py`, with the Python that has DPDispatcher, in the folder
where that was run, with the arguments of its ``submit``. With the ids of all jobs at hand
DPDispatcher takes up what it left; without, it would send every file once more and submit every job
a second time.
"""

from __future__ import annotations

import sys

from dpdispatcher.entrypoints.submit import load_submission_from_json
from dpdispatcher.utils.job_status import JobStatus


def main(path: str, allow_ref: bool) -> None:
    """Write the recovery file of a submission, unless it is there or a job has no id."""
    submission = load_submission_from_json(path, allow_ref=allow_ref)
    submission.generate_jobs()
    context = submission.machine.context
    if context.check_file_exists(f"{submission.submission_hash}.json"):
        return
    for job in submission.belonging_jobs:
        name = f"{job.job_hash}_job_id"
        if not context.check_file_exists(name):
            return
        job.job_id = context.read_file(name).strip()
        job.job_state = JobStatus.waiting
    submission.submission_to_json()


if __name__ == "__main__":
    main(sys.argv[-1], "--allow-ref" in sys.argv)
