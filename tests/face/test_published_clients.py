"""Published clients of the protocol: the inspector and the conformance suite."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import HERE, PLAN, Place, write_plan
from tests.face.front import front
from tests.face.test_http import TOKEN, served
from tests.npm import installed

pytestmark = [pytest.mark.long, pytest.mark.slow]

EXPECTED = Path(__file__).with_name("expected-failures.yaml")
#: The exit code of the inspector for an answer that is an error.
IS_ERROR = 5


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install both programs and a recent version of node."""
    scope = "@modelcontextprotocol"
    packages = (f"{scope}/inspector@2.12.0", f"{scope}/conformance@0.1.16")
    return installed(tmp_path_factory, "mcp-clients", "node@22", *packages)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a workflow."""
    assert (
        Place(tmp_path).call("init", str(write_plan(tmp_path, PLAN)), "--consent", "trust").code
        == 0
    )
    return tmp_path


def run(modules: Path, program: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run one of the installed programs with the installed node."""
    line = [str(modules / "node/bin/node"), str(modules / "@modelcontextprotocol" / program)]
    return subprocess.run(
        [*line, *words], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def inspected(modules: Path, root: Path, *words: str) -> tuple[int, Any]:
    """Run the inspector, and return its exit code and its decoded output."""
    server = root / "server"
    server.write_text(f'#!/bin/sh\nPYTHONPATH={HERE} exec {sys.executable} -m cli.main mcp "$@"\n')
    server.chmod(0o755)
    launcher = "inspector/clients/launcher/build/index.js"
    done = run(modules, launcher, "--cli", str(server), *words, cwd=root)
    return done.returncode, json.loads(done.stdout or done.stderr)


def test_inspector_accepts_the_tool_list(modules: Path, root: Path) -> None:
    """The strict mode of the inspector, which rejects unusual schemas, accepts every tool."""
    code, found = inspected(modules, root, "--method", "tools/list", "--strict")
    assert code == 0
    assert {"brief", "stage", "ask_person"} <= {tool["name"] for tool in found["tools"]}


@pytest.mark.parametrize("method", ["resources/list", "resources/templates/list", "prompts/list"])
def test_inspector_lists_resources_and_prompts(modules: Path, root: Path, method: str) -> None:
    """Each of the three lists (resources, resource templates, prompts) has entries."""
    code, found = inspected(modules, root, "--method", method)
    assert (code, len(next(iter(found.values()))) > 0) == (0, True)


def test_inspector_shows_the_text_of_a_refusal(modules: Path, root: Path) -> None:
    """The error text arrives although the tool declares a schema for success."""
    call = ("--method", "tools/call", "--tool-name")
    code, found = inspected(modules, root, *call, "brief")
    assert (code, found.get("isError", False)) == (0, False)
    code, found = inspected(modules, root, *call, "get", "--tool-arg", "stage=stage-99")
    assert (code, found["isError"]) == (IS_ERROR, True)
    assert "stage-99" in found["content"][0]["text"]


def test_conformance_suite_has_only_expected_failures(
    modules: Path, root: Path, tmp_path: Path
) -> None:
    """The suite fails only where expected. An expected failure that passes is an error."""
    with served(root, "--port", "0") as said:
        address = re.search(r"http://127\.0\.0\.1:(\d+)(/\S*)", said)
        assert address is not None, said
        with front(int(address[1]), TOKEN) as port:
            url = f"http://127.0.0.1:{port}{address[2]}"
            words = ["server", "--url", url, "--expected-failures", str(EXPECTED)]
            program = "conformance/dist/index.js"
            done = run(modules, program, *words, "-o", os.fspath(tmp_path / "told"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "dns-rebinding-protection" in done.stdout
