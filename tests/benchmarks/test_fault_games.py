"""Faults that are played on real processes with wfctl and GNU make, and on a real Slurm."""

from __future__ import annotations

import pytest

from benchmarks.faults import slurm_cluster
from benchmarks.faults.environments import ENVIRONMENTS, find_version, install, load_adapter
from benchmarks.faults.faults import FAULTS
from benchmarks.faults.game import Contender
from benchmarks.faults.play import Count, play_cell, read_normal_lines
from tests.need import need_programs

#: Faults with the verdicts of wfctl and of GNU make. The driver of GNU make changes no files.
VERDICTS = {
    "driver-killed-at-file-event": ("right", "left out"),
    "everything-killed": ("right", "wrong"),
    "job-daemonises": ("right", "wrong"),
    "input-edited": ("told", "wrong"),
    "output-truncated": ("told", "wrong"),
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("fault", VERDICTS)
def test_wfctl_never_repeats_a_step_or_hides_a_wrong_result(fault: str) -> None:
    """wfctl repairs the damage, or reports what has changed."""
    assert play("wfctl", fault) == VERDICTS[fault][0]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("fault", VERDICTS)
def test_gnu_make_hides_a_wrong_result(fault: str) -> None:
    """The game finds wrong results of GNU make, so it could find those of wfctl."""
    assert play("gnu_make", fault) == VERDICTS[fault][1]


@pytest.mark.long
@pytest.mark.slow
def test_wfctl_computes_a_cancelled_job_of_slurm_again() -> None:
    """One test plays on the Slurm of the games, because tests side by side would stop it."""
    need_programs("slurmctld", "munged")
    try:
        assert play("wfctl_slurm", "job-cancelled") == "right"
    finally:
        slurm_cluster.stop_cluster()


def play(name: str, fault_name: str) -> str:
    """Play a fault once with a contender on the chain, and return the verdict."""
    need_programs("make", "gcc")
    adapter = load_adapter(name)
    python = install(adapter, name, ENVIRONMENTS)
    contender = Contender(adapter, python, find_version(adapter, python))
    fault = next(fault for fault in FAULTS if fault.name == fault_name)
    normal = read_normal_lines(contender, "chain")
    return play_cell(contender, fault, "chain", normal, Count(repetitions=1, events=2)).verdict
