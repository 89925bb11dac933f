"""Search for the line in a job's output that states the cause of its failure."""

from __future__ import annotations

import pytest

from lifecycle.words.failure_cause import find_cause, get_cause_and_full_text

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\n'
CASES = {
    f"working\n{TRACEBACK}ValueError: no column T\ncleaned up\n": "ValueError: no column T",
    f"{TRACEBACK}phd.NoConvergence: 12 steps\n": "phd.NoConvergence: 12 steps",
    f"{TRACEBACK}ValueError: too small:\n 3 < 4\n": "ValueError: too small: 3 < 4",
    f"{TRACEBACK}AssertionError\n": "AssertionError: f()",
    f"{TRACEBACK}KeyError: 'T'\n\nDuring handling of the above exception, another exception "
    f"occurred:\n\n{TRACEBACK}ValueError: no column T\n": "ValueError: no column T",
    '  File "<string>", line 1\n    x = ;\n        ^\nSyntaxError: invalid syntax\n': (
        "SyntaxError: invalid syntax"
    ),
    "LAMMPS\nERROR: Unknown pair style lj/cutt (src/force.cpp:275)\nLast command: x\n": (
        "ERROR: Unknown pair style lj/cutt (src/force.cpp:275)"
    ),
    "ERROR on proc 0: Lost atoms\nMPI_ABORT was invoked\n": "ERROR on proc 0: Lost atoms",
    " %%%%%\n     Error in routine electrons (1):\n     charge is wrong\n %%%%%\n": (
        "Error in routine electrons (1): charge is wrong"
    ),
    "Fatal error:\nThe box is too small\nfor more see\n": "Fatal error: The box is too small",
    "Error: 0.003\nthe energy drifts by 0.3\n": "the energy drifts by 0.3",
    "sbatch: error: invalid partition\n": "sbatch: error: invalid partition",
    " \n": None,
}


@pytest.mark.parametrize("text", CASES)
def test_cause_is_the_line_with_the_error(text: str) -> None:
    """wfctl returns the line of an exception or solver error, or else the last line."""
    assert find_cause(text) == CASES[text]


def test_error_in_the_log_comes_before_the_last_line_of_stderr() -> None:
    """wfctl prefers a solver's error in stdout to a final warning in stderr."""
    assert find_cause("a warning\n", "ERROR: Lost atoms\nbye\n") == "ERROR: Lost atoms"
    assert find_cause("", "bye\n") == "bye"


def test_pasted_traceback_is_split_into_cause_and_full_text() -> None:
    """The last line of a pasted traceback becomes the error, and wfctl keeps the whole text."""
    text = f"{TRACEBACK}ValueError: no column T"
    assert get_cause_and_full_text(text) == ("ValueError: no column T", text)
    assert get_cause_and_full_text("bad mesh") == ("bad mesh", None)
