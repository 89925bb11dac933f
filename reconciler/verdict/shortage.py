"""Find out which resource was short when a job failed, from the line that shows the failure."""

from __future__ import annotations

import re

from lifecycle.payload import models as p

#: Patterns of messages of jobs that had too little memory. The first three are messages of
#: programs, the others those of wfctl, Slurm, PBS, LSF and SGE.
OUT_OF_MEMORY = (
    r"out[ _]of[ _]memory|oom[- _]kill|cannot allocate memory",
    r"\bMemoryError\b|std::bad_alloc",
    r"exceeded .*memory limit|\bv?mem \w+ exceeded limit|TERM_MEMLIMIT|LSF memory usage limit",
    r"exceeds job hard limit .h_vmem",
)
#: Patterns of messages of jobs that had too little time.
OUT_OF_TIME = (
    r"due to time limit|time limit exceeded|walltime .*exceeded",
    r"ended by its time limit of \d+ s",
    r"TERM_RUNLIMIT|LSF run time limit|exceeded hard wallclock time",
)
#: Descriptions with which wfctl itself states that memory was probably short, or time.
_STATED_MEMORY = r"SIGKILL|ended by signal 9"
_STATED_TIME = r"scheduler says (TIMEOUT|DEADLINE)|the limit of processor time"
_MEMORY = re.compile("|".join([*OUT_OF_MEMORY, _STATED_MEMORY]), re.IGNORECASE)
_TIME = re.compile("|".join([*OUT_OF_TIME, _STATED_TIME]), re.IGNORECASE)
#: Matches messages about the memory of a graphics card, which a job cannot request.
_OF_CARD = re.compile(r"\b(CUDA|GPU|HIP)(\b|_)", re.IGNORECASE)


def find_shortage(line: str) -> p.Shortage | None:
    """Return ``memory`` or ``time`` if the line shows that the job had too little, or None."""
    if _OF_CARD.search(line):
        return None
    if _TIME.search(line):
        return "time"
    return "memory" if _MEMORY.search(line) else None
