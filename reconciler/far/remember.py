"""Write the recovery file of a submission if DPDispatcher died before it wrote the file.

`patched_dpdispatcher.py` runs this module as a separate process, with DPDispatcher's Python, in the
folder of the submission and with the arguments of its ``submit``. With a recovery file that
contains all job ids, DPDispatcher continues the submission. Without it, DPDispatcher would send
every file and submit every job again.
"""

from __future__ import annotations

import sys

from dpdispatcher.entrypoints.submit import load_submission_from_json
from dpdispatcher.utils.job_status import JobStatus


def write_recovery_file(path: str, allow_ref: bool) -> None:
    """Write the recovery file of a submission.

    Writes nothing if the file exists or if a job has no id.
    """
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
    write_recovery_file(sys.argv[-1], "--allow-ref" in sys.argv)
