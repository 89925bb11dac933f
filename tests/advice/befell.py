"""What docs/run/recovery.md says may befall a workflow, and the test that has it happen."""

from __future__ import annotations

_CRASH = "tests/crash/test_"

BEFELL = {
    "monitor, session or tmux server killed": f"{_CRASH}matrix.py::test_each_victim",
    "the shells of a job killed, its command computes on": f"{_CRASH}outliving.py::test_what_it",
    "a command ended with 0 and what it started computes on": f"{_CRASH}background.py::test_what",
    "a monitor started again from another shell, or by a tmux server of weeks ago": (
        f"{_CRASH}environments.py::test_an_attempt_keeps"
    ),
    "a driver killed, its solver computes on elsewhere": f"{_CRASH}leavers.py::test_a_solver",
    "everything killed, the host restarted": f"{_CRASH}odd_worlds.py::test_a_job_that_a_reboot",
    "the root moved or copied": "tests/cli/test_root_elsewhere.py::test_once_said_it_is_so",
    "the root deleted, or `.wfctl` alone, and begun anew": f"{_CRASH}lives.py::test_the_result",
    "a copy, or a colleague, with the same `remote_root`": f"{_CRASH}lives.py::test_a_copy_shares",
    "a stage cancelled in one root and made anew in a copy": f"{_CRASH}lives.py::test_a_copy_says",
    "the log lost, or restored from a backup": "tests/cli/test_lost_log.py::test_what_the_files",
    "the log ends before what the files show (`log_behind`)": (
        f"{_CRASH}lives.py::test_a_job_that_the_log_lost"
    ),
    "the host renamed": "tests/cli/test_renamed_host.py::test_a_renamed_host",
    "the clock set back": f"{_CRASH}damage.py::test_an_output_counts_whatever_the_clock_says",
    "`git clean -fd`, `git stash -u` or `rm -rf STAGE` under a live job": (
        f"{_CRASH}removed.py::test_files_that_are_removed"
    ),
    "the connection cut while files go to a far machine": (
        "tests/cluster/test_cut.py::test_a_connection_cut"
    ),
    "one file of an attempt damaged": f"{_CRASH}damage.py::test_a_result_is_collected",
    "the folder `.attempts`, or an attempt's own, cannot be read": (
        f"{_CRASH}damage.py::test_a_folder_of_attempts"
    ),
    "an upgrade of wfctl or DPDispatcher, or a step back, with jobs under way": (
        f"{_CRASH}upgrades.py::test_a_later_wfctl"
    ),
    "a root moved while its job waited behind a scheduler of this machine": (
        f"{_CRASH}pairs.py::test_whatever_comes_together"
    ),
    "the same, and the host was renamed too": f"{_CRASH}pairs.py::test_whatever_comes_together",
    "monitors that end again and again, another DPDispatcher, an output that is a link to "
    "nothing": (f"{_CRASH}damage.py::test_a_result_on_another_file_system"),
    "a wrong user, key, host name or `remote_root`, from the start or from now on": (
        "tests/cluster/test_refused.py::test_a_mistake_in_the_connection_blocks"
    ),
    "a scheduler or a machine that does not answer": (
        "tests/cluster/test_slurm.py::test_a_silent_scheduler"
    ),
}
