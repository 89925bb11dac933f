"""wfctl compares every file that a stage's command runs with its approved version."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place
from tests.sweeps.support import begun, sweep
from tests.verification.test_came_about import STAGE, check_reported
from tests.verification.test_deeds import retried, sampler

pytestmark = pytest.mark.slow

#: Text with which wfctl reports a script that nobody approved.
CREATED_LATER = "which was created or changed after the workflow was created"
WRITES = "echo 99 > out.txt\n"


def write(path: Path, text: str) -> Path:
    """Write a file and create its parent folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def running(command: str, **fields: Any) -> dict[str, Any]:
    """Return a stage that runs this command and sends all files of its folder to the job."""
    return {**STAGE, "parameters": {"command": command}, **fields}


@pytest.mark.long
def test_leftover_of_one_stage_does_not_approve_the_script_of_another(tmp_path: Path) -> None:
    """stage-1's job writes the script that stage-2 runs, so wfctl reports it."""
    other = write(tmp_path / "root/scripts/two.sh", "echo 1 > out.txt\n")
    command = f"mkdir -p ../scripts; printf '{WRITES[:-1]}' > ../scripts/two.sh; echo > out.txt"
    second = {**running("bash ../scripts/two.sh"), "id": "stage-2", "inputs": ["scripts/two.sh"]}
    second |= {"outputs": ["stage-2/out.txt"], "depends_on": ["stage-1"]}
    place = begun(tmp_path, running(command), second)
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    (left,) = place.path.glob("stage-1/.attempts/*/left/scripts/two.sh")
    shutil.copy(left, other)
    place.done("run")
    why = f"att-0001 ran scripts/two.sh, {CREATED_LATER}"
    check_reported(place, ("script", why), ("script", why))


@pytest.mark.long
@pytest.mark.parametrize("is_output", [True, False])
def test_script_written_for_another_stage_is_an_output_or_reported(
    tmp_path: Path, is_output: bool
) -> None:
    """wfctl reports a script written by another stage, unless it is an output of it."""
    outputs = ["stage-1/out.txt", *(["stage-1/later"] if is_output else [])]
    first = running(f"printf '{WRITES[:-1]}' > later; echo > out.txt", outputs=outputs)
    second = {**running("bash ../stage-1/later"), "id": "stage-2", "inputs": ["stage-1/later"]}
    second |= {"outputs": ["stage-2/out.txt"], "depends_on": ["stage-1"]}
    place = begun(tmp_path, first, second)
    place.done("run")
    if is_output:
        assert place.json("audit", "bypasses").code == 0
    else:
        why = f"att-0001 ran stage-1/later, {CREATED_LATER}"
        check_reported(place, ("script", why), ("script", why))


def begin_with_linked_script(folder: Path) -> tuple[Place, Path]:
    """Create a workflow whose script is a link to a file outside; return this file too."""
    outside = write(folder / "outside.sh", "echo 1 > out.txt\n")
    link = folder / "root/scripts/link.sh"
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    place = begun(folder, running("bash ../scripts/link.sh", inputs=["scripts/link.sh"]))
    return place, outside


@pytest.mark.long
def test_target_of_a_link_out_of_the_root_is_compared(tmp_path: Path) -> None:
    """wfctl reports that the file outside the workflow folder was changed."""
    place, outside = begin_with_linked_script(tmp_path)
    outside.write_text(WRITES)
    place.done("run")
    why = f"att-0001 ran scripts/link.sh, {CREATED_LATER}"
    check_reported(place, ("script", why), ("script", why))


@pytest.mark.long
def test_copy_of_an_unchanged_link_is_not_a_leftover(tmp_path: Path) -> None:
    """wfctl sends a link to the job as a copy of its target, which is no leftover file."""
    place, _ = begin_with_linked_script(tmp_path)
    place.done("run")
    assert place.json("audit", "bypasses").code == 0
    assert not list(place.path.glob("stage-1/.attempts/*/left/*"))


PYTHON = "import sys\nopen('out.txt', 'w').write('1')\n"
MAKEFILE = "all:\n\techo 1 > out.txt\n"
EXCHANGED: list[tuple[str, str, list[str]]] = [
    ("python3 -m runit", "stage-1/runit.py", []),
    ("python3 -um inner.runit 5", "stage-1/inner/runit.py", []),
    ("PYTHONPATH=$WFCTL_ROOT/scripts python3 -m pk", "scripts/pk/__main__.py", ["scripts/pk"]),
    ("python3 later 5", "stage-1/later", []),
    ("set -e; env X=1 python3 -W ignore ./later", "stage-1/later", []),
    ("bash -c 'python3 < later'", "stage-1/later", []),
    ("cd ../scripts && python3 later && mv out.txt $OLDPWD", "scripts/later", ["scripts/later"]),
    ('python3 "$WFCTL_ROOT"/scripts/later', "scripts/later", ["scripts/later"]),
    ("python3 pk", "stage-1/pk/__main__.py", []),
    ("cd sub && ./run && mv out.txt ..", "stage-1/sub/run", []),
    ("mkdir -p x; (cd $WFCTL_ROOT/sub; ./run); mv ../sub/out.txt .", "sub/run", ["sub"]),
    ("make", "stage-1/Makefile", []),
    ("nice make -C $WFCTL_ROOT/build all && mv ../build/out.txt .", "build/GNUmakefile", ["build"]),
    ("make -sf rules", "stage-1/rules", []),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("command", "path", "inputs"), EXCHANGED)
def test_file_run_by_an_interpreter_is_compared_with_its_first_version(
    tmp_path: Path, command: str, path: str, inputs: list[str]
) -> None:
    """wfctl records the digest of the script or module when the workflow is created."""
    text = MAKEFILE if "make" in command else f"#!/usr/bin/env python3\n{PYTHON}"
    file = write(tmp_path / "root" / path, text)
    file.chmod(0o755)
    place = begun(tmp_path, running(command, inputs=inputs))
    file.write_text(text.replace("1", "99"))
    place.done("run")
    why = f"att-0001 ran {path}, {CREATED_LATER}"
    check_reported(place, ("script", why), ("script", why))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python3 -m runit", "stage-1/runit.py"),
        ("python3 later", "stage-1/later"),
        ("python3 pk", "stage-1/pk/__main__.py"),
        ("python3 -m pk", "stage-1/pk/__main__.py"),
        ("make", "stage-1/makefile"),
    ],
)
def test_file_created_later_and_run_by_an_interpreter_is_reported(
    tmp_path: Path, command: str, path: str
) -> None:
    """wfctl reports the script, because it did not exist when the workflow was approved."""
    place = begun(tmp_path, running(command))
    write(place.path / path, MAKEFILE if command == "make" else PYTHON)
    place.done("run")
    why = f"att-0001 ran {path}, {CREATED_LATER}"
    check_reported(place, ("script", why), ("script", why))


@pytest.mark.long
def test_arguments_and_libraries_are_not_scripts(tmp_path: Path) -> None:
    """wfctl does not report numbers, missing files and modules of the standard library."""
    write(tmp_path / "root/stage-1/data", "1\n")
    command = "python3 -m json.tool data out.txt && bash -c 'echo 1 2 > out.txt' x y; awk '{}' data"
    place = begun(tmp_path, running(command))
    (recorded,) = place.done("events", "--type", "files.recorded") or [{"data": {"scripts": {}}}]
    scripts = recorded["data"]["scripts"]
    assert [path for path, one in scripts.items() if one == "missing"] == ["init.sh"]
    place.done("run")
    assert place.json("audit", "bypasses").code == 0


COMMANDS = [
    "exec mytool 3",
    '"mytool" 3',
    "set -e; mytool 3",
    "mytool>log",
    "cd . && mytool 3",
    "env X=1 mytool",
    "time mytool",
    "nice -n 5 mytool",
    "mkdir -p a; X=1 mytool",
    "if mytool; then echo; else exit 3; fi",
]


def mytool(folder: Path, patch: pytest.MonkeyPatch, text: str) -> Path:
    """Create a program `mytool` in the first folder of PATH."""
    return sampler(folder, patch, text).rename(folder / "bin/mytool")


@pytest.mark.few(3)
@pytest.mark.parametrize("command", COMMANDS)
def test_program_is_found_in_any_form_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """wfctl finds the program in each command line and reports that it was replaced."""
    program = mytool(tmp_path, monkeypatch, "exit 3")
    place = begun(tmp_path, running(command))
    assert place.json("run").code == 6
    program.write_text("#!/bin/bash\necho 1 > out.txt\n")
    retried(place)
    why = "bin/mytool was another program in att-0001, which failed"
    check_reported(place, ("program", why), ("program", why))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["verify", "task_verify"])
def test_changed_program_of_a_check_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The check's program rejected the results, was replaced, and then accepted them."""
    program = mytool(tmp_path, monkeypatch, "exit 1")
    stage = running("echo 1 > out.txt")
    if name == "task_verify":
        stage = sweep(tmp_path / "trace", {"grid": {"T": [1]}})
    stage["parameters"][name] = "mytool"
    place = begun(tmp_path, stage)
    assert place.json("run").code == 6
    program.write_text("#!/bin/bash\nexit 0\n")
    retried(place)
    why = "bin/mytool was another program in att-0001, which failed"
    check_reported(place, ("program", why), ("program", why))
