"""The line that tells what went wrong, of all that was written."""

from __future__ import annotations

import pytest

from lifecycle.words.values import cause_of, in_one_line

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
def test_the_cause_is_the_line_that_says_it(text: str) -> None:
    """An exception, an ERROR: of a solver, else the last line."""
    assert cause_of(text) == CASES[text]


def test_a_statement_anywhere_comes_before_a_last_line() -> None:
    """What a solver says in its log says more than the last warning on stderr."""
    assert cause_of("a warning\n", "ERROR: Lost atoms\nbye\n") == "ERROR: Lost atoms"
    assert cause_of("", "bye\n") == "bye"


def test_what_a_person_pastes_is_one_line_and_the_whole() -> None:
    """A traceback given to `stage fail` is kept below its last line."""
    text = f"{TRACEBACK}ValueError: no column T"
    assert in_one_line(text) == ("ValueError: no column T", text)
    assert in_one_line("bad mesh") == ("bad mesh", None)
