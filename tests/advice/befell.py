"""The incidents of docs/run/recovery.md, each with the test that brings it about."""

from __future__ import annotations

_CRASH = "tests/crash/test_"

BEFELL = {
    "Somebody killed the monitor, the session or the tmux server.": (
        f"{_CRASH}matrix.py::test_each_victim"
    ),
    "The shells of a job were killed, but the command of the job still runs.": (
        f"{_CRASH}outliving.py::test_what_it"
    ),
    "The command of a job exited with 0, but a process that it started still runs.": (
        f"{_CRASH}background.py::test_what"
    ),
    "A monitor was started again from another shell or an old tmux server.": (
        f"{_CRASH}environments.py::test_an_attempt_keeps"
    ),
    "A program was killed, but another program that it started still computes.": (
        f"{_CRASH}leavers.py::test_a_solver"
    ),
    "The computer restarted, so all processes ended.": (
        f"{_CRASH}odd_worlds.py::test_a_job_that_a_reboot"
    ),
    "You moved or copied the folder of the workflow (the root).": (
        "tests/cli/test_root_elsewhere.py::test_once_said_it_is_so"
    ),
    "Somebody deleted the root or `.wfctl`, and created the workflow again.": (
        f"{_CRASH}lives.py::test_the_result"
    ),
    "A copy of the workflow or a colleague uses the same `remote_root`.": (
        f"{_CRASH}lives.py::test_a_copy_shares"
    ),
    "You cancelled a stage in one root and want to run it in a copy of the root.": (
        f"{_CRASH}lives.py::test_a_copy_says"
    ),
    "You lost the log, or restored it from a backup.": (
        "tests/cli/test_lost_log.py::test_what_the_files"
    ),
    "The log is older than the files of the workflow (`log_behind`).": (
        f"{_CRASH}lives.py::test_a_job_that_the_log_lost"
    ),
    "The host has a new name.": "tests/cli/test_renamed_host.py::test_a_renamed_host",
    "Somebody set the clock of the computer back.": (
        f"{_CRASH}damage.py::test_an_output_counts_whatever_the_clock_says"
    ),
    "Somebody ran `git clean -fd`, `git stash -u` or `rm -rf STAGE` during a job.": (
        f"{_CRASH}removed.py::test_files_that_are_removed"
    ),
    "The connection was lost during the upload of files.": (
        "tests/cluster/test_cut.py::test_a_connection_cut"
    ),
    "One file of a job is damaged.": f"{_CRASH}damage.py::test_a_result_is_collected",
    "The folder `.attempts` of a stage is unreadable.": (
        f"{_CRASH}damage.py::test_a_folder_of_attempts"
    ),
    "Somebody upgraded or downgraded wfctl or DPDispatcher during a job.": (
        f"{_CRASH}upgrades.py::test_a_later_wfctl"
    ),
    "You moved the root while its job waited in the queue of a scheduler.": (
        f"{_CRASH}pairs.py::test_whatever_comes_together"
    ),
    "You moved the root while its job waited in a queue, and the host got a new name.": (
        f"{_CRASH}pairs.py::test_whatever_comes_together"
    ),
    "The monitor of a job fails again and again.": (
        f"{_CRASH}damage.py::test_a_result_on_another_file_system"
    ),
    "The machine file contains a wrong user, key, host name or `remote_root`.": (
        "tests/cluster/test_refused.py::test_a_mistake_in_the_connection_blocks"
    ),
    "A scheduler or a machine does not answer.": (
        "tests/cluster/test_slurm.py::test_a_silent_scheduler"
    ),
}
