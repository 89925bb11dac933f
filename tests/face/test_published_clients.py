"""Clients that the protocol's authors publish: the inspector, and the conformance suite."""

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
#: The exit code of the inspector for an answer that says it is an error.
IS_ERROR = 5


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both programs, and a node that is new enough for them."""
    scope = "@modelcontextprotocol"
    packages = (f"{scope}/inspector@2.12.0", f"{scope}/conformance@0.1.16")
    return installed(tmp_path_factory, "mcp-clients", "node@22", *packages)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workflow."""
    assert (
        Place(tmp_path).call("init", str(write_plan(tmp_path, PLAN)), "--consent", "trust").code
        == 0
    )
    return tmp_path


def run(modules: Path, program: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of these modules by the node beside them."""
    line = [str(modules / "node/bin/node"), str(modules / "@modelcontextprotocol" / program)]
    return subprocess.run(
        [*line, *words], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def inspected(modules: Path, root: Path, *words: str) -> tuple[int, Any]:
    """Return the exit code of the inspector and what it printed, decoded."""
    server = root / "server"
    server.write_text(f'#!/bin/sh\nPYTHONPATH={HERE} exec {sys.executable} -m cli.main mcp "$@"\n')
    server.chmod(0o755)
    launcher = "inspector/clients/launcher/build/index.js"
    done = run(modules, launcher, "--cli", str(server), *words, cwd=root)
    return done.returncode, json.loads(done.stdout or done.stderr)


def test_the_inspector_finds_nothing_wrong_with_the_tools(modules: Path, root: Path) -> None:
    """Strictly, so that a schema which some client cannot read is an error."""
    code, found = inspected(modules, root, "--method", "tools/list", "--strict")
    assert code == 0
    assert {"brief", "stage", "ask_person"} <= {tool["name"] for tool in found["tools"]}


@pytest.mark.parametrize("method", ["resources/list", "resources/templates/list", "prompts/list"])
def test_the_inspector_lists_what_else_there_is(modules: Path, root: Path, method: str) -> None:
    """Resources by their addresses, and prompts."""
    code, found = inspected(modules, root, "--method", method)
    assert (code, len(next(iter(found.values()))) > 0) == (0, True)


def test_the_inspector_is_told_a_refusal_in_its_words(modules: Path, root: Path) -> None:
    """The text of an error arrives, although a schema of success stands beside the tool."""
    call = ("--method", "tools/call", "--tool-name")
    code, found = inspected(modules, root, *call, "brief")
    assert (code, found.get("isError", False)) == (0, False)
    code, found = inspected(modules, root, *call, "get", "--tool-arg", "stage=stage-99")
    assert (code, found["isError"]) == (IS_ERROR, True)
    assert "stage-99" in found["content"][0]["text"]


def test_the_suite_fails_where_it_is_expected_to_and_nowhere_else(
    modules: Path, root: Path, tmp_path: Path
) -> None:
    """The list of expected failures says why; one that passes is told as well."""
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
