"""Messages of jobs about missing software that the plan requires."""

from __future__ import annotations

import re

MODULE = "the module {} is not loaded"
VENV = "there is no virtual environment {}"
CONDA = "there is no conda environment {}"
CONTAINER = "apptainer is not installed"
PROGRAM = "a program that was not found"
#: Messages of wfctl and of shells that report missing software.
_LINES = (MODULE, VENV, CONDA, CONTAINER, PROGRAM, "{}: command not found")
_MISSING = re.compile("|".join(re.escape(line).replace(r"\{\}", ".+") for line in _LINES))


def is_caused_by_missing_software(because: str) -> bool:
    """Return whether missing software is the cause of a failure."""
    return _MISSING.search(because) is not None
