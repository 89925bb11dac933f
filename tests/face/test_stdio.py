"""The stdio server gives one answer for each request line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extensions.agents.serving import find_request_id
from tests.cli.support import PLAN, Place, write_plan
from tests.face.support import parameters

pytestmark = pytest.mark.slow

CALL = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s","arguments":%s}}'
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "lines", "version": "1"},
    },
}


class Lines:
    """A client that writes lines, valid or not, and reads the answers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def ask(self, *lines: str | bytes) -> Any:
        """Write the lines and return the next answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for line in lines:
            raw = line.encode() if isinstance(line, str) else line
            self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Lines]:
    """Yield a client that has completed the handshake with the server of a workflow."""
    plan = write_plan(tmp_path, PLAN)
    assert Place(tmp_path).call("init", str(plan), "--consent", "trust").code == 0
    start = parameters(tmp_path)
    pipe = subprocess.PIPE
    line = [start.command, *start.args]
    with subprocess.Popen(line, cwd=tmp_path, env=start.env, stdin=pipe, stdout=pipe) as process:
        client = Lines(process)
        assert client.ask(json.dumps(HELLO))["result"]["serverInfo"]["name"] == "wfctl"
        yield client
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0


def test_invalid_json_request_is_answered_with_its_id(client: Lines) -> None:
    """The server answers unreadable JSON with an error for its id, and continues."""
    half = client.ask(CALL % (7, "record", '{"note":"\\ud800"}'))
    assert (half["id"], half["error"]["code"]) == (7, -32700)
    deep = '{"machine":"m","data":' + "[" * 9000 + "]" * 9000 + "}"
    nested = client.ask(CALL % ('"x-8"', "update", deep))
    assert (nested["id"], nested["error"]["code"]) == ("x-8", -32700)
    assert client.ask(CALL % (9, "get", "{}"))["id"] == 9


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "line", ["not json", b"\xff\xfe", '{"jsonrpc":"2.0","method":', "[" * 9000]
)
def test_line_without_a_readable_id_is_answered_with_null(client: Lines, line: str | bytes) -> None:
    """The server's error has the id null. A blank line gets no answer."""
    answer = client.ask("", line)
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert client.ask("", CALL % (2, "get", "{}"))["id"] == 2


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ('{"jsonrpc":"2.0","id":4}', 4),
        ('{"jsonrpc":"2.0","id":"a","method":7}', "a"),
        ('{"id":5,"method":"tools/list"}', 5),
        ("[]", None),
    ],
)
def test_json_that_is_not_a_request_gets_its_own_error_code(
    client: Lines, line: str, id_: int | str | None
) -> None:
    """Valid JSON that is no request gets the code -32600, unlike unreadable JSON."""
    answer = client.ask(line)
    assert (answer["id"], answer["error"]["code"]) == (id_, -32600)


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ('{"params":{"id":1},"id":2,"x":"\\ud800"}', 2),
        ('{"x":"id","y":"\\"id\\":3","id" : "b-1",', "b-1"),
        ('{"params":[{"id":1}]}', None),
        ('{"id":"\\ud800"}', None),
        ('"id":1', None),
    ],
)
def test_request_id_is_read_from_the_outermost_object(line: str, id_: int | str | None) -> None:
    """An id within the arguments or within a string is ignored."""
    assert find_request_id(line) == id_
