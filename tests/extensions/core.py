"""The program without some or all extensions: ``python -m tests.extensions.core [NAME …]``.

Without a name, all extensions are deleted. In a copy, mypy, command lines of the core and the tests
of the core run. Tests that need a deleted extension are skipped: see `tests.extensions.missing`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.cli.support import HERE
from wfctl_eventstore.extension import COMMAND_WORDS

_PYTEST = ("-m", "pytest", "-q", "-p", "tests.extensions.missing", "--ignore", "tests/extensions")
#: Packages that belong to the core of the program.
PACKAGES = "cli eventstore lifecycle migrations projections reconciler service wfctl_eventstore"
#: Command lines of the core with their exit codes; they run in this order in one folder.
COMMAND_LINES: dict[str, int] = {
    "init plan.toml --consent trust": 0,
    "note x": 0,
    "dispatch stage-1 --sync": 0,
    "stage verify stage-1": 0,
    "run": 0,
    "status": 0,
    "show stage-1": 0,
    "log": 0,
    "events": 0,
    "reconcile": 0,
    "rehydrate": 0,
    "report -": 0,
    "amend propose --stage stage-2 --set parameters.expected_seconds=3 --reason x": 0,
    "amend approve amend-1": 0,
    "plan check plan.toml": 0,
    "why stage-2": 0,
    "blame stage-1.parameters.count": 0,
    "diff 1 5": 7,
    "compare stage-1 stage-2": 0,
    "verify": 0,
    "drift show": 0,
    "clean --dry-run": 0,
    "replay --check": 0,
    "fsck": 0,
    "schema plan": 0,
    "session show": 0,
    "logs stage-1": 0,
    "list": 0,
    "inbox": 0,
    "--help": 0,
}


def copy_without(names: Sequence[str], folder: Path) -> Path:
    """Copy the program and its tests without these extensions; return the folder of the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=HERE, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.split("\0"):
        if name and (HERE / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HERE / name, folder / name)
    for name in names:
        shutil.rmtree(folder / "extensions" / name)
    return folder


def ignore_tests_of(names: Sequence[str], sources: Path) -> list[str]:
    """Return the options that exclude the tests of these extensions.

    They lie in ``tests/NAME``; those of `agents` also lie in ``tests/face``.
    """
    folders = [f"tests/{name}" for name in (*names, *(["face"] if "agents" in names else []))]
    return [f"--ignore={folder}" for folder in folders if (sources / folder).is_dir()]


def make_environment(sources: Path) -> Path:
    """Make a virtual environment that runs the copy with the packages installed here."""
    place = sources / ".venv"
    venv.create(place, with_pip=False, symlinks=True)
    [packages] = place.glob("lib/python*/site-packages")
    (packages / "copy.pth").write_text(f"{sources}\n{sysconfig.get_path('purelib')}\n")
    program = place / "bin" / "wfctl"
    text = f"#!{place}/bin/python\nfrom wfctl_eventstore.__main__ import main\nmain()\n"
    program.write_text(text)
    program.chmod(0o755)
    for name in ("dpdisp", "dargs"):
        program.with_name(name).symlink_to(Path(sys.executable).with_name(name))
    return program


def run_command_lines(program: Path, folder: Path) -> list[str]:
    """Run the command lines in a new workflow; return those that fail, with their errors."""
    shutil.copy2(HERE / "service/example-plan.toml", folder / "plan.toml")
    found = []
    for line, code in COMMAND_LINES.items():
        done = subprocess.run(
            [program, *shlex.split(line)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        if done.returncode != code or "Traceback" in done.stderr:
            found.append(f"{line}: exit code {done.returncode} for {code}: {done.stderr[-500:]}")
    return found


def main(names: Sequence[str]) -> int:
    """Check the program without these extensions, or without any; return an exit code."""
    with tempfile.TemporaryDirectory(prefix="wfctl-core-") as folder:
        names = names or sorted(COMMAND_WORDS)
        sources = copy_without(names, Path(folder, "wfctl"))
        program = make_environment(sources)
        python = program.with_name("python")
        typed = subprocess.run(
            [python, "-m", "mypy", *PACKAGES.split()], cwd=sources, check=False
        ).returncode
        workflow = Path(folder, "workflow")
        workflow.mkdir()
        wrong = run_command_lines(program, workflow)
        print("\n".join(wrong) or f"{len(COMMAND_LINES)} command lines as expected")
        workers = str(2 * (os.cpu_count() or 1))
        tested = subprocess.run(
            [python, *_PYTEST, *ignore_tests_of(names, sources), "-n", workers],
            cwd=sources,
            check=False,
        ).returncode
    return int(bool(typed or wrong or tested))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
