"""Messages of a job about software that its plan names and its machine lacks."""

from __future__ import annotations

import re

MODULE = "the module {} is not loaded"
VENV = "there is no virtual environment {}"
CONDA = "there is no conda environment {}"
CONTAINER = "apptainer is not installed"
PROGRAM = "a program that was not found"
#: Lines of wfctl and of shells that report missing software.
_LINES = (MODULE, VENV, CONDA, CONTAINER, PROGRAM, "{}: command not found")
_MISSING = re.compile("|".join(re.escape(line).replace(r"\{\}", ".+") for line in _LINES))


def is_missing(because: str) -> bool:
    """Return whether the cause of a failure is missing software."""
    return _MISSING.search(because) is not None
