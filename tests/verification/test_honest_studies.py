"""The audit reports an ordinary correction, and one agreement of a person settles it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import Place
from tests.sweeps.support import begun
from tests.verification.test_came_about import script
from tests.verification.test_deeds import retried, with_script

pytestmark = pytest.mark.slow

GOOD = "echo 0.5 > out.txt\n"
Study = Callable[[Path, pytest.MonkeyPatch], Place]


def failed(place: Place) -> Place:
    """Run the workflow and check that its stage fails."""
    assert place.json("run").code == 6
    return place


def corrected_script(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Run a script that fails, correct it, and retry the stage."""
    place = failed(with_script(folder, "exit 3\n"))
    script(place).write_text(GOOD)
    return retried(place)


def corrected_input(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Run with wrong input data, correct the data, and retry the stage."""
    text = f"grep right data.txt && {GOOD}"
    place = with_script(folder, text, forward_files=["sample.sh", "data.txt"])
    data = script(place).with_name("data.txt")
    data.write_text("wrong\n")
    failed(place)
    data.write_text("right\n")
    return retried(place)


def activated_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Run without a required program, activate an environment that has it, and retry."""
    place = failed(with_script(folder, f"measure\n{GOOD}", command="bash -e sample.sh"))
    program = folder / "env/bin/measure"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("VIRTUAL_ENV", str(folder / "env"))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return retried(place)


def added_module(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Run a script that lacks a module, add the module, and retry the stage."""
    text = "import helper\nopen('out.txt', 'w').write(helper.VALUE)\n"
    command = f"python3 {folder / 'root/stage-1/sample.sh'}"
    place = failed(with_script(folder, text, command=command))
    script(place).with_name("helper.py").write_text("VALUE = '0.5'\n")
    return retried(place)


def corrected_folder(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Correct a script and its module in a folder that is an input, and retry the stage."""
    scripts = folder / "root/scripts"
    scripts.mkdir(parents=True)
    text = "import helper\nopen('out.txt', 'w').write(helper.VALUE)\n"
    (scripts / "one.py").write_text(text)
    (scripts / "helper.py").write_text("VALUE = 1\n")
    command = "python3 ../scripts/one.py"
    stage = {"id": "stage-1", "name": "One", "inputs": ["scripts"], "outputs": ["stage-1/out.txt"]}
    place = failed(begun(folder, {**stage, "parameters": {"command": command}}))
    (scripts / "one.py").write_text(f"# Text is written.\n{text}")
    (scripts / "helper.py").write_text("VALUE = '0.5'\n")
    return retried(place)


def added_comment(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Add a comment to a script after its run."""
    place = with_script(folder, GOOD)
    place.done("run")
    script(place).write_text(f"# The plateau.\n{GOOD}")
    return place


def moved_folder(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Move the folder of the workflow after its run."""
    place = with_script(folder, GOOD)
    place.done("run")
    place = Place(place.path.rename(folder / "elsewhere"))
    place.done("rehydrate", "--root-is", "moved")
    return place


def folder_named_as_a_module(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Put a package `code` and a file `queue.py`, which nothing imports, next to a script."""
    command = f"python3 {folder / 'root/stage-1/sample.sh'}"
    text = "import math\nopen('out.txt', 'w').write(str(math.pi))\n"
    place = with_script(folder, text, command=command)
    package = script(place).with_name("code")
    package.mkdir()
    (package / "__init__.py").touch()
    script(place).with_name("queue.py").touch()
    place.done("run")
    return place


def removed_import(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Remove the import of a missing library from a script next to a package `code`."""
    command = f"python3 {folder / 'root/stage-1/sample.sh'}"
    text = "open('out.txt', 'w').write('0.5')\n"
    place = with_script(folder, f"import nunpy\n{text}", command=command)
    package = script(place).with_name("code")
    package.mkdir()
    (package / "__init__.py").touch()
    failed(place)
    script(place).write_text(text)
    return retried(place)


#: Names of the corrections that the audit does not report at all.
CLEAN = {"moved_folder", "folder_named_as_a_module"}
STUDIES: dict[str, Study] = {
    one.__name__: one
    for one in (
        *(corrected_script, corrected_input, activated_environment),
        *(added_module, corrected_folder, added_comment, moved_folder, folder_named_as_a_module),
        removed_import,
    )
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", STUDIES)
def test_audit_of_an_honest_study_needs_at_most_one_agreement(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One audit entry covers all that is reported about one correction."""
    (tmp_path / "w").mkdir()
    place = STUDIES[name](tmp_path / "w", monkeypatch)
    listed = place.json("audit", "bypasses").data
    waiting = {one["entry"] for one in listed if one["agreed"] is None}
    assert len(waiting) <= 1, listed
    assert (name in CLEAN) == (not waiting), listed
    if waiting:
        words = ("audit", "agree", *waiting, "--reason", "seen", "--actor", "user:pi")
        place.done(*words)
    answer = place.json("audit", "bypasses")
    assert answer.code == 0, answer
