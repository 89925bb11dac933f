"""Status, report, page and audit report changes outside wfctl that affect a result."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import py_compile
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import Place
from tests.reconciler.support import until
from tests.sweeps.support import begun
from tests.verification.test_came_about import (
    CONSTANT,
    FAILS,
    STAGE,
    check_reported,
    script,
    told,
)

WAITS = """import os, sys, time

def wait_for(name):
    while not os.path.exists(f"{sys.argv[1]}/{name}"):
        time.sleep(0.05)

open(f"{sys.argv[1]}/started", "w").close()
wait_for("go")
import helper
open(f"{sys.argv[1]}/imported", "w").close()
wait_for("end")
open("out.txt", "w").write(helper.VALUE)
"""
Deed = Callable[[Path, pytest.MonkeyPatch], Place]


def with_script(folder: Path, text: str, **parameters: object) -> Place:
    """Create a workflow of one stage whose script already exists."""
    file = folder / "root/stage-1/sample.sh"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    stage = {**STAGE, "parameters": {**STAGE["parameters"], **parameters}}
    return begun(folder, stage)


def retried(place: Place) -> Place:
    """Retry the failed stage, and check that the run completes it."""
    place.done("stage", "retry", "stage-1", "--fix", "none")
    place.done("run")
    return place


def exchanged_copy(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Replace the job's copy of the script while the job runs."""
    waits = (
        "touch ../../../../../../started; until test -e ../../../../../../go; do sleep 0.05; done"
    )
    place = with_script(folder, "echo 0.5 > out.txt\n", command=f"{waits}; bash sample.sh")
    place.done("dispatch", "stage-1")
    until((place.path / "started").exists, 30)
    (copy,) = place.path.glob("stage-1/.attempts/*/work/*/stage-1/sample.sh")
    copy.unlink()
    copy.write_text(CONSTANT)
    (place.path / "go").touch()
    place.done("run")
    return place


def waiting_job(folder: Path) -> tuple[Place, Path]:
    """Start a job that waits and then imports a module; return the folder of its files."""
    root = folder / "root"
    (root / "scripts").mkdir(parents=True)
    (root / "scripts/one.py").write_text(WAITS)
    (root / "scripts/helper.py").write_text("VALUE = '1'\n")
    files = ["scripts/one.py", "scripts/helper.py"]
    command = f"python3 ../scripts/one.py {folder}"
    stage = {**STAGE, "inputs": files, "parameters": {"command": command}}
    place = begun(folder, stage)
    place.done("dispatch", "stage-1")
    until((folder / "started").exists, 30)
    (copies,) = root.glob("stage-1/.attempts/*/work/*/scripts")
    return place, copies


def ended(place: Place) -> Place:
    """Let the waiting job import its module, and run the stage to completion."""
    (place.path.parent / "go").touch()
    until((place.path.parent / "imported").exists, 30)
    (place.path.parent / "end").touch()
    place.done("run")
    return place


def linked_folder(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Replace the job's folder of scripts with a link to other files while the job runs."""
    place, copies = waiting_job(folder)
    shutil.copytree(copies, folder / "evil")
    (folder / "evil/helper.py").write_text("VALUE = '99'\n")
    copies.rename(copies.with_name("old"))
    copies.symlink_to(folder / "evil")
    return ended(place)


def hidden_module(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """While the job runs, add a package that hides one of its modules."""
    place, copies = waiting_job(folder)
    (copies / "helper").mkdir()
    (copies / "helper/__init__.py").write_text("VALUE = '99'\n")
    return ended(place)


def removed_copy(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Replace the job's copy of a module while the job runs, and delete it before the end."""
    place, copies = waiting_job(folder)
    (copies / "helper.py").write_text("VALUE = '99'\n")
    (folder / "go").touch()
    until((folder / "imported").exists, 30)
    (copies / "helper.py").unlink()
    return ended(place)


def first_attempt(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Change the script before the first attempt, and restore it after the run."""
    place = with_script(folder, "echo 0.5 > out.txt\n")
    script(place).write_text(CONSTANT)
    place.done("run")
    script(place).write_text("echo 0.5 > out.txt\n")
    return place


def changed_afterwards(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Change the script after the run."""
    place = with_script(folder, "echo 0.5 > out.txt\n")
    place.done("run")
    script(place).write_text(CONSTANT)
    return place


def missing_afterwards(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Delete the script after the run."""
    place = with_script(folder, "echo 0.5 > out.txt\n")
    place.done("run")
    script(place).unlink()
    return place


def seed(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """Change an environment variable between the failed and the passing attempt."""
    patch.setenv("SEED", "1")
    place = with_script(folder, '[ "$SEED" = 2 ] && echo 1 > out.txt\n')
    assert place.json("run").code == 6
    patch.setenv("SEED", "2")
    return retried(place)


def sampler(folder: Path, patch: pytest.MonkeyPatch, text: str) -> Path:
    """Create a program `sampler` in the first folder of PATH, and return its path."""
    program = folder / "bin/sampler"
    program.parent.mkdir()
    program.write_text(f"#!/bin/bash\n{text}\n")
    program.chmod(0o755)
    patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def replaced_program(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """After a failure, replace the program of the command with another file."""
    program = sampler(folder, patch, "exit 3")
    place = with_script(folder, FAILS, command="sampler --steps 5")
    assert place.json("run").code == 6
    program.write_text("#!/bin/bash\necho 1 > out.txt\n")
    return retried(place)


def program_of_a_rerun(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """Replace the program of the command between the completion and a rerun."""
    program = sampler(folder, patch, "echo 0.5 > out.txt")
    place = with_script(folder, FAILS, command="SEED=1 sampler --steps 5")
    place.done("run")
    program.write_text("#!/bin/bash\necho 1 > out.txt\n")
    place.done("rerun", "stage-1", "--reason", "none")
    place.done("run")
    return place


def module_of_a_package(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """After a failure, change a module in a package that the check imports."""
    place = with_script(folder, "echo 0.5 > out.txt\n", verify="python3 check.py")
    (place.path / "limits/inner").mkdir(parents=True)
    (place.path / "limits/inner/bounds.py").write_text("LEAST = 0.9\n")
    text = "from limits.inner import bounds\n"
    text += "assert float(open('stage-1/out.txt').read()) > bounds.LEAST\n"
    (place.path / "check.py").write_text(text)
    assert place.json("run").code == 6
    # The new text has another length, because Python reuses a compiled module if size and time are
    # equal.
    (place.path / "limits/inner/bounds.py").write_text("LEAST = 0.10\n")
    return retried(place)


def seed_of_two_reruns(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """Change an environment variable before a rerun, and rerun the stage twice."""
    patch.setenv("SEED", "1")
    place = with_script(folder, "echo $SEED > out.txt\n")
    place.done("run")
    patch.setenv("SEED", "2")
    for _ in range(2):
        place.done("rerun", "stage-1", "--reason", "none")
        place.done("run")
    return place


def added_data(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Add a file to the folder of the stage after a failure."""
    place = with_script(folder, "cp seed.txt out.txt\n", forward_files=None)
    assert place.json("run").code == 6
    (place.path / "stage-1/seed.txt").write_text("99\n")
    return retried(place)


def checked_by_a_module(folder: Path) -> Place:
    """Create a workflow whose check imports a module from a package next to it."""
    place = with_script(folder, "echo 0.5 > out.txt\n", verify="python3 scripts/check.py")
    (place.path / "scripts/lib").mkdir(parents=True)
    (place.path / "scripts/lib/limits.py").write_text("LEAST = 0.9\n")
    text = "from lib import limits\n"
    text += "assert float(open('stage-1/out.txt').read()) > limits.LEAST\n"
    (place.path / "scripts/check.py").write_text(text)
    return place


def module_between_two_checks(folder: Path, _: pytest.MonkeyPatch) -> Place:
    """Change a module that the check imports between a refused and an accepted completion."""
    place = checked_by_a_module(folder)
    place.done("dispatch", "stage-1", "--sync")
    assert place.json("stage", "complete", "stage-1").code == 5
    (place.path / "scripts/lib/limits.py").write_text("LEAST = 0.10\n")
    place.done("stage", "complete", "stage-1")
    return place


DEEDS: list[tuple[Deed, str, str]] = [
    (exchanged_copy, "script", "the copy of stage-1/sample.sh in the folder of the job"),
    (linked_folder, "script", "the copy of scripts/helper.py in the folder of the job"),
    (hidden_module, "script", "scripts/helper/__init__.py appeared during the job of att-0001"),
    (removed_copy, "script", "the copy of scripts/helper.py in the folder of the job"),
    (first_attempt, "script", "att-0001 ran stage-1/sample.sh, which was created or changed after"),
    (changed_afterwards, "script", "changed since the workflow was created"),
    (seed, "environment", "another value than in att-0001, which failed: SEED"),
    (replaced_program, "program", "bin/sampler was another program in att-0001, which failed"),
    (program_of_a_rerun, "program", "bin/sampler was another program in att-0001, which was comp"),
    (module_of_a_package, "module", "limits/inner/bounds.py has changed since att-0001"),
    (
        seed_of_two_reruns,
        "environment",
        "another value than in att-0001, which was completed: SEED",
    ),
    (
        module_between_two_checks,
        "module",
        "limits.py changed between the start of att-0001 and its check",
    ),
    (added_data, "input", "stage-1/seed.txt was sent to the job, and was not in att-0001"),
    (missing_afterwards, "script", "missing, but it existed when stage-1 att-0001 started"),
]


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(("deed", "kind", "words"), DEEDS, ids=[one[0].__name__ for one in DEEDS])
def test_each_manipulation_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: Deed, kind: str, words: str
) -> None:
    """Status, report, page and audit all have the expected item about the manipulation."""
    place = deed(tmp_path, monkeypatch)
    check_reported(place, (kind, words), (kind, words))


@pytest.mark.long
@pytest.mark.slow
def test_approved_script_is_no_longer_reported(tmp_path: Path) -> None:
    """After a person approves the digest of the changed script, the audit is clean."""
    place = with_script(tmp_path, "echo 0.5 > out.txt\n")
    script(place).write_text(CONSTANT)
    place.done("run")
    assert dict(told(place))["script"]
    pinning = ["--set", "session_config.pin=scripts", "--reason", "It is meant to be so."]
    place.done("amend", "propose", *pinning)
    place.done("amend", "approve", "amend-1")
    assert told(place) == []
    assert place.json("audit", "bypasses").data == []


@pytest.mark.slow
def test_log_does_not_reveal_values_of_environment_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wfctl records digests made with a secret key, which only the owner can read."""
    monkeypatch.setenv("MY_TOKEN", "1234")
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    place = with_script(tmp_path, CONSTANT)
    place.done("run")
    (started,) = place.done("events", "--type", "attempt.started")
    assert len(started["data"]["variables"]["MY_TOKEN"]) == 12
    assert not {"SSH_TTY", "PWD", "SHLVL", "TERM"} & started["data"]["variables"].keys()
    key = place.path / ".wfctl/environment.key"
    assert key.stat().st_mode & 0o777 == 0o600
    plain = hashlib.sha256(b"MY_TOKEN=1234").hexdigest()
    assert started["data"]["variables"]["MY_TOKEN"] not in plain
    archive = tmp_path / "copy.zip"
    place.done("export", "archive", str(archive))
    with zipfile.ZipFile(archive) as found:
        assert all(key.read_bytes() not in found.read(name) for name in found.namelist())


@pytest.mark.slow
def test_other_terminal_is_not_reported_as_other_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables of a terminal or login session do not affect results and are ignored."""
    monkeypatch.setenv("TERM", "xterm")
    place = with_script(tmp_path, "[ -e ../../../../../../go ] && echo 1 > out.txt\n")
    assert place.json("run").code == 6
    (place.path / "go").touch()
    names = [
        "TERM",
        "DISPLAY",
        "SSH_CLIENT",
        "TMUX",
        "SLURM_JOB_ID",
        "PBS_JOBID",
        "WINDOWID",
        "STY",
    ]
    for name in (
        *names,
        "KITTY_WINDOW_ID",
        "WEZTERM_PANE",
        "ZELLIJ_SESSION_NAME",
        "JPY_PARENT_PID",
    ):
        monkeypatch.setenv(name, "another")
    assert told(retried(place)) == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["twice", "other"])
def test_report_names_only_new_folders_of_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The report names a new folder of PATH, but not a folder that PATH lists twice."""
    place = with_script(tmp_path, "[ -e ../../../../../../go ] && echo 1 > out.txt\n")
    assert place.json("run").code == 6
    (place.path / "go").touch()
    path = os.environ["PATH"]
    more = path.rpartition(":")[2] if way == "twice" else "/a/new/bin"
    monkeypatch.setenv("PATH", f"{path}:{more}")
    found = told(retried(place))
    said = ("environment", "PATH has /a/new/bin, unlike in att-0001, which failed")
    assert found == ([] if way == "twice" else [said])


@pytest.mark.slow
def test_agreement_to_an_environment_covers_later_reruns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a person agrees to an attempt, wfctl does not compare it with earlier ones."""
    place = seed_of_two_reruns(tmp_path, monkeypatch)
    (entry,) = {one["entry"] for one in place.json("audit", "bypasses").data}
    place.done("audit", "agree", entry, "--reason", "seen", "--actor", "user:pi")
    monkeypatch.setenv("OTHER", "1")
    place.done("rerun", "stage-1", "--reason", "none")
    place.done("run")
    waiting = [one for one in place.json("audit", "bypasses").data if one["agreed"] is None]
    assert [one["why"].rpartition(": ")[2] for one in waiting] == ["OTHER"]


def compile_other_text(module: Path, text: str) -> None:
    """Replace the compiled copy of a module with other code that Python would load.

    Its recorded size and time match the module.
    """
    other = module.with_name(f"other_{module.name}")
    other.write_text(text)
    copy = Path(importlib.util.cache_from_source(str(module)))
    py_compile.compile(str(other), str(copy))
    other.unlink()
    known = module.stat()
    head = struct.pack("<LL", int(known.st_mtime), known.st_size)
    content = copy.read_bytes()
    copy.write_bytes(content[:8] + head + content[16:])


@pytest.mark.slow
@pytest.mark.parametrize("inputs", ["[]", '["scripts/lib/limits.py"]'])
def test_check_ignores_compiled_copies_of_modules(tmp_path: Path, inputs: str) -> None:
    """The check runs the module's source; Python alone would load the compiled copy."""
    place = checked_by_a_module(tmp_path)
    if inputs != "[]":
        line = ["amend", "propose", "--stage", "stage-1", "--set", f"inputs={inputs}"]
        place.done(*line, "--reason", "the check reads it")
        place.done("amend", "approve", "amend-1")
    place.done("dispatch", "stage-1", "--sync")
    module = place.path / "scripts/lib/limits.py"
    compile_other_text(module, "LEAST = 0.1\n")
    assert place.json("stage", "complete", "stage-1").code == 5
    assert not (module.parent / "__pycache__").exists()


@pytest.mark.slow
def test_compiled_modules_are_not_sent_to_a_job(tmp_path: Path) -> None:
    """wfctl copies modules to the job without the compiled files next to them."""
    text = "import one, helper\nopen('out.txt', 'w').write(one.VALUE + helper.VALUE)\n"
    command = "PYTHONPATH=../scripts python3 sample.sh"
    place = with_script(tmp_path, text, command=command, forward_files=None)
    (place.path / "scripts").mkdir()
    for file in (script(place).with_name("helper.py"), place.path / "scripts/one.py"):
        file.write_text("VALUE = 'x'\n")
        compile_other_text(file, "VALUE = 'evil'\n")
    amended = ["amend", "propose", "--stage", "stage-1", "--set", 'inputs=["scripts/one.py"]']
    place.done(*amended, "--reason", "none")
    place.done("amend", "approve", "amend-1")
    place.done("run")
    assert (place.path / "stage-1/out.txt").read_text() == "xx"
