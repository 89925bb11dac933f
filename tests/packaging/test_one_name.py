"""An installation adds only the name `wfctl_eventstore` to site-packages.

Files with the same names as wfctl's packages do not affect its commands.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from cli.program.commands import load_commands
from tests.cli.support import HERE
from tests.keeping.support import made, stage

pytestmark = pytest.mark.slow

_BUILD = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
#: The names of the packages that the wheel contains below `wfctl_eventstore/app`.
PACKAGES = _BUILD["targets"]["wheel"]["hooks"]["custom"]["application"]
#: The content of a module that ends every program that imports it.
POISON = "raise SystemExit('poisoned')\n"
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
#: Commands that do not end soon. They run until they are stopped, or run a whole workflow.
ENDLESS = frozenset({"demo", "serve", "mcp", "runner serve", "witness serve"})


def run_python(python: Path, *words: str, check: bool = True) -> str:
    """Run a Python interpreter with arguments, and return its output."""
    done = subprocess.run(
        [str(python), *words], check=False, capture_output=True, text=True, timeout=600, cwd="/"
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this repository."""
    folder = tmp_path_factory.mktemp("wheel")
    run_python(Path(sys.executable), *PIP, "wheel", "--no-deps", "-w", str(folder), str(HERE))
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with openai-agents, wfctl and their dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    run_python(Path(sys.executable), "-m", "venv", str(folder))
    python = folder / "bin/python"
    run_python(python, *PIP, "install", "hatchling", "editables", "openai-agents", str(wheel))
    return python


@pytest.mark.long
def test_wheel_has_one_top_level_folder(wheel: Path) -> None:
    """The folder `wfctl_eventstore` contains all packages of the application."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {
        "wfctl_eventstore"
    }
    packages = {name.split("/")[2] for name in names if name.startswith("wfctl_eventstore/app/")}
    assert packages == {*PACKAGES}


@pytest.mark.long
@pytest.mark.parametrize("is_editable", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_openai_agents_and_wfctl_work_in_one_environment(
    python: Path, wheel: Path, tmp_path: Path, is_editable: bool, is_first: bool
) -> None:
    """Both work in either order of installation, although both have a package ``agents``.

    After wfctl is removed, openai-agents still works.
    """
    run_python(python, *PIP, "uninstall", "-y", "wfctl-eventstore", "openai-agents")
    wfctl = ["--no-build-isolation", "--editable", str(HERE)] if is_editable else [str(wheel)]
    both = [wfctl, ["openai-agents"]]
    for words in both if is_first else reversed(both):
        run_python(python, *PIP, "install", "--no-deps", *words)
    program = str(python.with_name("wfctl"))
    plan = str(HERE / "service/example-plan.toml")
    for line in (["init", plan, "--consent", "trust"], ["agent", "install", "--help"], ["status"]):
        done = subprocess.run([program, *line], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, (line, done)
    ask = "import agents, wfctl_eventstore; agents.Agent; print(wfctl_eventstore.open().root)"
    # The package ``agents`` must be that of openai-agents, because an editable installation adds
    # the repository to the path after site-packages.
    found = subprocess.run([str(python), "-c", ask], cwd=tmp_path, capture_output=True, check=False)
    assert found.stdout.decode().strip() == str(tmp_path), found
    run_python(python, *PIP, "uninstall", "-y", "wfctl-eventstore")
    run_python(python, "-c", "from agents import Agent")


@pytest.mark.long
def test_files_named_like_wfctl_packages_do_not_affect_commands(tmp_path: Path) -> None:
    """No wfctl command imports such files in the current folder or in a folder of PYTHONPATH."""
    place = made(tmp_path, stage(1, "true"), consent="trust")
    for folder in (place.path, tmp_path / "modules"):
        folder.mkdir(exist_ok=True)
        for name in (*PACKAGES, "wfctl_eventstore"):
            (folder / f"{name}.py").write_text(POISON)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path / 'modules'}:"}
    for name in sorted(load_commands()):
        words = [*name.split(), "--help"] if name in ENDLESS else name.split()
        done = subprocess.run(
            [sys.executable, "-P", str(HERE / "wfctl_eventstore/__main__.py"), *words],
            cwd=place.path,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert "poisoned" not in done.stdout + done.stderr, name
        assert "Traceback" not in done.stderr, name
