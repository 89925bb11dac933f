"""The judge of the fault games: each verdict for a planted truth file."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.faults.judge import Ending, Judgement, judge_ending
from benchmarks.faults.truth import read_runs

NO_STEPS: frozenset[str] = frozenset()

#: A truth file of a game in which every step was computed once.
ONCE = """\
start prepare 11 1.0 aaaa
end prepare 11 2.0 aaaa
start measure 12 3.0 bbbb
end measure 12 9.0 bbbb
"""

#: Lines that record a second, later computation of a step.
AGAIN = "start measure 13 10.0 bbbb\nend measure 13 16.0 bbbb\n"


def judge(
    folder: Path,
    truth: str,
    *,
    exit_code: int = 0,
    lines: tuple[str, ...] = (),
    repeatable: frozenset[str] = NO_STEPS,
    result: str = "7\n",
    late_result: str = "7\n",
    changed_files: tuple[str, ...] = (),
) -> Judgement:
    """Judge a game with this truth file, in which the right result of `measure` is 7."""
    path = folder / "truth.txt"
    path.write_text(truth)
    ending = Ending(
        runs=read_runs(path),
        expected={"measure": "7\n"},
        results={"measure": result},
        late_results={"measure": late_result},
        exit_code=exit_code,
        lines=lines,
        changed_files=changed_files,
    )
    return judge_ending(ending, repeatable)


def test_right_result_computed_once_is_right(tmp_path: Path) -> None:
    """A warning does not matter if everything is right."""
    assert judge(tmp_path, ONCE, lines=("warning: slow disk",)) == ("right", "")


@pytest.mark.parametrize(
    ("exit_code", "lines", "message"),
    [
        (6, ("measure waits for you",), "exit code 6: measure waits for you"),
        (0, ("done", "measure has changed"), "measure has changed"),
    ],
)
def test_missing_result_with_a_message_is_told(
    tmp_path: Path, exit_code: int, lines: tuple[str, ...], message: str
) -> None:
    """An exit code or a sentence informs the user."""
    found = judge(tmp_path, ONCE, exit_code=exit_code, lines=lines, result="", late_result="")
    assert found == ("told", f"measure is missing; {message}")


def test_step_computed_twice_from_the_same_inputs_is_twice(tmp_path: Path) -> None:
    """The right result does not excuse the repetition."""
    assert judge(tmp_path, ONCE + AGAIN) == ("twice", "computed twice: measure")


def test_step_whose_result_the_fault_destroyed_may_be_repeated(tmp_path: Path) -> None:
    """Only the named steps may be computed again."""
    assert judge(tmp_path, ONCE + AGAIN, repeatable=frozenset({"measure"})).verdict == "right"
    assert judge(tmp_path, ONCE + AGAIN, repeatable=frozenset({"prepare"})).verdict == "twice"


def test_step_computed_from_other_inputs_is_no_repetition(tmp_path: Path) -> None:
    """The digest of the inputs distinguishes the computations."""
    assert judge(tmp_path, ONCE + AGAIN.replace("bbbb", "cccc")).verdict == "right"


def test_killed_computation_is_no_repetition(tmp_path: Path) -> None:
    """A computation without an end is ignored."""
    truth = ONCE + AGAIN.partition("end")[0]
    assert judge(tmp_path, truth).verdict == "right"


def test_overlapping_runs_count_as_twice_even_if_repetition_is_allowed(tmp_path: Path) -> None:
    """Two runs side by side could mix their results."""
    truth = ONCE + AGAIN.replace("10.0", "8.5")
    found = judge(tmp_path, truth, repeatable=frozenset({"measure"}))
    assert found == ("twice", "two runs overlapped: measure")


@pytest.mark.parametrize(
    ("result", "late_result", "problem"),
    [
        ("", "7\n", "measure is missing"),
        ("6\n", "6\n", "measure is wrong"),
        ("7\n", "6\n", "measure changed afterwards"),
    ],
)
def test_wrong_result_without_a_message_is_wrong(
    tmp_path: Path, result: str, late_result: str, problem: str
) -> None:
    """A later change by a job that still ran is wrong too."""
    found = judge(tmp_path, ONCE, lines=("done",), result=result, late_result=late_result)
    assert found == ("wrong", f"the tool reported success, but {problem}")


def test_message_about_a_file_that_the_fault_changed_is_told(tmp_path: Path) -> None:
    """The user can conclude from the file which results are wrong."""
    lines = ("plan.json was edited",)
    found = judge(tmp_path, ONCE, lines=lines, result="", changed_files=("plan.json",))
    assert found == ("told", "measure is missing; plan.json was edited")
    assert judge(tmp_path, ONCE, lines=lines, result="").verdict == "wrong"


def test_message_about_another_step_informs_nobody(tmp_path: Path) -> None:
    """A step that is missing because it has not run is no problem."""
    assert judge(tmp_path, ONCE, lines=("report is missing",), result="").verdict == "wrong"


def test_silently_wrong_is_worse_than_twice(tmp_path: Path) -> None:
    """The worst verdict counts."""
    assert judge(tmp_path, ONCE + AGAIN, result="6\n").verdict == "wrong"


def test_told_is_better_than_twice(tmp_path: Path) -> None:
    """A message does not excuse a repetition."""
    assert judge(tmp_path, ONCE + AGAIN, result="6\n", exit_code=1).verdict == "twice"
