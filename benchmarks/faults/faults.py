"""The table of faults: how each is played, and which repetitions it justifies."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.faults import (
    file_events,
    file_faults,
    host_faults,
    preload,
    process_faults,
    slurm_faults,
)
from benchmarks.faults.game import Game

#: Names of all works.
EVERYWHERE = ("chain", "sweep", "rounds")


def do_nothing(game: Game) -> None:
    """Leave the game as it is."""


def allow_no_repetition(game: Game) -> frozenset[str]:
    """Return no steps, because the fault destroys no result."""
    return frozenset()


def find_no_obstacle() -> str:
    """Return an empty string, because every machine can play the fault."""
    return ""


class Fault(NamedTuple):
    """One fault: its row in the table, and the functions that play it on a game."""

    name: str  # on the command line
    title: str  # in the table
    act: Callable[[Game], None]  # on the running game
    prepare: Callable[[Game], None] = do_nothing  # before the files are written
    repeatable: Callable[[Game], frozenset[str]] = allow_no_repetition  # steps
    is_edit: bool = False  # files change, so the user runs the tool once more
    has_moments: bool = False  # one game for each of several file events
    works: tuple[str, ...] = ("chain",)
    middle: float = 15.0  # seconds of the middle step of the chain
    find_obstacle: Callable[[], str] = find_no_obstacle  # why this machine cannot play the fault
    scheduler: str = ""  # empty, or `slurm` for adapters with this SCHEDULER


FAULTS = (
    Fault(
        name="driver-killed-at-file-event",
        title="driver killed at a file event",
        prepare=file_events.prepare_kill,
        act=file_events.wait_for_kill,
        has_moments=True,
        middle=file_events.MIDDLE,
        find_obstacle=preload.find_obstacle,
    ),
    Fault("driver-killed", "driver killed", process_faults.kill_driver, works=EVERYWHERE),
    Fault(
        name="all-but-job-killed",
        title="everything but the job killed",
        act=process_faults.kill_all_but_jobs,
        works=EVERYWHERE,
    ),
    Fault(
        name="all-but-program-killed",
        title="everything but the command of the job killed",
        act=process_faults.kill_all_but_programs,
        works=EVERYWHERE,
    ),
    Fault(
        name="everything-killed",
        title="everything killed",
        act=process_faults.kill_everything,
        works=EVERYWHERE,
    ),
    Fault("job-killed", "job killed", process_faults.kill_job, works=EVERYWHERE),
    Fault("job-frozen", "job frozen and thawed", process_faults.freeze_job),
    Fault(
        name="job-daemonises",
        title="job continues in a child that holds the output open",
        prepare=process_faults.let_job_daemonise,
        act=process_faults.wait_for_middle,
        middle=6.0,
    ),
    Fault(
        name="job-daemonises-and-closes",
        title="job continues in a child that opens the output again",
        prepare=process_faults.let_job_daemonise_and_close,
        act=process_faults.wait_for_middle,
        middle=6.0,
    ),
    Fault(
        name="job-kills-group",
        title="job kills its process group",
        prepare=process_faults.let_job_kill_group,
        act=process_faults.wait_for_middle,
        middle=3.0,
    ),
    Fault("two-drivers", "two drivers", process_faults.start_second_driver),
    Fault(
        name="disk-full",
        title="disk full",
        prepare=host_faults.mount_small_disk,
        act=host_faults.fill_disk,
        find_obstacle=host_faults.needs_root,
    ),
    Fault(
        name="clock-back",
        title="clock set back",
        prepare=host_faults.prepare_clock,
        act=host_faults.set_clock_back,
        is_edit=True,
        find_obstacle=preload.find_obstacle,
    ),
    Fault(
        name="host-renamed",
        title="host renamed",
        prepare=host_faults.name_host,
        act=host_faults.rename_host,
        find_obstacle=host_faults.needs_root,
    ),
    Fault("input-edited", "input edited during the run", file_faults.edit_input, is_edit=True),
    Fault(
        name="parameter-edited",
        title="parameter edited by hand",
        act=file_faults.edit_parameter,
        is_edit=True,
        middle=3.0,
    ),
    Fault(
        name="output-truncated",
        title="output truncated after the end",
        act=file_faults.truncate_output,
        repeatable=file_faults.find_middle_and_dependents,
        is_edit=True,
        middle=3.0,
    ),
    Fault(
        name="results-cleaned",
        title="results deleted",
        act=file_faults.clean_results,
        repeatable=file_faults.find_all_steps,
        is_edit=True,
        middle=3.0,
    ),
    Fault("state-lost", "state of the tool lost", file_faults.lose_state),
    Fault(
        name="state-older",
        title="older state of the tool restored",
        act=file_faults.restore_older_state,
        is_edit=True,
    ),
    Fault(
        name="controller-killed",
        title="Slurm: controller killed",
        act=slurm_faults.kill_controller,
        scheduler="slurm",
    ),
    Fault(
        name="job-cancelled",
        title="Slurm: scancel",
        act=slurm_faults.cancel_job,
        scheduler="slurm",
    ),
    Fault(
        name="job-requeued",
        title="Slurm: job requeued",
        act=slurm_faults.requeue_job,
        scheduler="slurm",
    ),
    Fault(
        name="job-forgotten",
        title="Slurm: jobs forgotten",
        act=slurm_faults.forget_jobs,
        middle=slurm_faults.LONGER_THAN_REGISTRATION,
        scheduler="slurm",
    ),
    Fault(
        name="submission-fails",
        title="Slurm: sbatch fails, but the job runs",
        prepare=slurm_faults.let_submission_fail,
        act=slurm_faults.wait_for_failed_submission,
        middle=slurm_faults.LONGER_THAN_RETRY,
        scheduler="slurm",
    ),
)
