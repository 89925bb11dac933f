"""Why an attempt does not continue: Slurm's reasons for a pending job, in words."""

from __future__ import annotations

#: Slurm's reason → what the job waits for.
_REASONS = {
    "Priority": "jobs of higher priority come first",
    "Resources": "no free nodes or cores yet",
    "BeginTime": "its begin time has not come",
    "Dependency": "a job that it depends on has not ended",
    "JobHeldUser": "the user holds it; `scontrol release {id}` lets it start",
    "JobHeldAdmin": "an administrator holds it; only an administrator can release it",
    "DependencyNeverSatisfied": "a job that it depends on failed, so it can never start",
}
#: Reasons that no time ends: a person must act.
_FOR_PERSON = ("JobHeldUser", "JobHeldAdmin", "DependencyNeverSatisfied")


def pending_words(id_: str, reason: str) -> str:
    """Return why Slurm lets a job wait."""
    known = _REASONS.get(reason, "").format(id=id_)
    return f"job {id_} is pending in Slurm ({reason})" + (f": {known}" if known else "")


def waits_for_person(waiting: str | None) -> bool:
    """Return whether a recorded reason is one that a person must end."""
    return waiting is not None and any(f"({one})" in waiting for one in _FOR_PERSON)
