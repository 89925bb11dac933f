"""Descriptions of the reasons for which a job is pending in the scheduler Slurm."""

from __future__ import annotations

#: Description of each reason that Slurm gives for a pending job.
_REASONS = {
    "Priority": "jobs of higher priority come first",
    "Resources": "no free nodes or cores yet",
    "BeginTime": "its start time has not come",
    "Dependency": "a job that it depends on has not ended",
    "JobHeldUser": "held by the user; `scontrol release {id}` lets it start",
    "JobHeldAdmin": "held by an administrator, who alone can release it",
    "DependencyNeverSatisfied": "a job that it depends on failed, so it can never start",
    "PartitionTimeLimit": "it requests more time than its partition allows",
    "PartitionNodeLimit": "it requests more nodes than its partition allows",
    "BadConstraints": "no node has the resources that it requests",
    "QOSMaxWallDurationPerJobLimit": "it requests more time than its QOS allows",
    "AssocMaxWallDurationPerJobLimit": "it requests more time than its account allows",
}
#: Slurm's reasons for a pending job that can never start.
_NEVER = (
    "DependencyNeverSatisfied",
    "PartitionTimeLimit",
    "PartitionNodeLimit",
    "BadConstraints",
    "QOSMaxWallDurationPerJobLimit",
    "AssocMaxWallDurationPerJobLimit",
)
#: Slurm's reasons for a pending job that starts only after a person acts.
_FOR_PERSON = ("JobHeldUser", "JobHeldAdmin", *_NEVER)


def describe_pending_job(id_: str, reason: str) -> str:
    """Return a sentence that explains why a job is pending in Slurm."""
    known = _REASONS.get(reason, "").format(id=id_)
    return f"job {id_} is pending in Slurm ({reason})" + (f": {known}" if known else "")


def waits_for_person(waiting: str | None) -> bool:
    """Return whether the recorded reason of a pending job requires a person to act.

    Return False if no reason is recorded.
    """
    return waiting is not None and any(f"({one})" in waiting for one in _FOR_PERSON)


def can_never_start(waiting: str | None) -> bool:
    """Return whether the recorded reason of a pending job means that the job can never start."""
    return waiting is not None and any(f"({one})" in waiting for one in _NEVER)
