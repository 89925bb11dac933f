"""Tool calls to the real server, by the official client in both generations of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from tests.cli.support import Place, agree, write_plan
from tests.crash.outliving import parent_process_id
from tests.face.support import ERAS, Agent, agent, drive, parameters

pytestmark = pytest.mark.slow

PLAN: dict[str, Any] = {
    "workflow_id": "melt",
    "purpose": "See it melt.",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "outputs": ["stage-1/out.txt"],
            "success_criteria": "out.txt says hi",
            "parameters": {"command": "echo hi > out.txt"},
        },
        {"id": "stage-2", "name": "Run", "depends_on": ["stage-1"]},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a plan but no workflow."""
    write_plan(tmp_path, PLAN)
    return tmp_path


@pytest.fixture
def root(folder: Path) -> Place:
    """Return a workflow."""
    place = Place(folder)
    answer = place.call("init", str(folder / "plan.json"), "--consent", "trust")
    assert answer.code == 0, answer
    return place


@pytest.mark.long
@pytest.mark.parametrize("era", ERAS)
def test_agent_runs_a_stage_from_plan_to_completion(folder: Path, era: str) -> None:
    """The suggested calls lead an agent to a completed stage, and the log names the agent."""

    async def steps(one: Agent) -> None:
        assert (await one.call("check", action="plan", plan="plan.json")).data["workflow"] == "melt"
        begun = await one.call("begin", action="workflow", plan="plan.json", request_id="b1")
        assert [e["type"] for e in begun.data["events"]] == ["workflow.created", "stage.readied"]
        refused = await one.call("stage", action="dispatch", stage="stage-1", request_id="d0")
        assert refused.error["code"] == "needs_consent"
        await anyio.to_thread.run_sync(agree, folder)
        await one.call("stage", action="dispatch", stage="stage-1", request_id="d1")
        waited = await one.call("stage", action="wait", stage="stage-1", seconds=60)
        assert waited.data["status"] == "post_processing"
        [judge] = [n for n in waited.value["next"] if n.get("tool") == "stage"]
        assert judge["needs"]
        done = await one.call(
            judge["tool"], **{**judge["arguments"], "evidence": "out.txt says hi"}, request_id="c1"
        )
        assert done.data["events"][0]["type"] == "stage.completed"
        assert (await one.call("brief")).data["counts"]["completed"] == 1

    drive(folder, steps, "--actor", "agent:scribe", era=era)
    actors = {event["actor"] for event in Place(folder).done("log")}
    assert "agent:scribe" in actors
    assert {actor for actor in actors if actor.startswith("user:")} == {"user:pi"}


@pytest.mark.long
@pytest.mark.parametrize("era", ERAS)
def test_refusal_is_an_error_with_readable_text(root: Place, era: str) -> None:
    """The text has code, message and exit code, without structured content.

    Clients would validate structured content against the schema for successful answers.
    """

    async def steps(one: Agent) -> None:
        refused = await one.call("stage", action="dispatch", stage="stage-2")
        assert refused.error["exit_code"] == 5
        assert refused.error["code"]
        assert "pending" in refused.error["message"]
        unknown = await one.call("get", stage="stage-9")
        assert unknown.error["exit_code"] == 3
        unfit = await one.call("get", stag="stage-1")
        assert "stag" in unfit.error["message"]
        assert (
            "expected"
            in (await one.call("stage", action="retry", stage="stage-1")).error["message"]
        )

    drive(root.path, steps, era=era)


@pytest.mark.long
def test_repeated_call_acts_once(root: Place) -> None:
    """A repeated request id gets the first answer. Other content is a conflict."""

    async def steps(one: Agent) -> None:
        for _ in range(3):
            assert not (await one.call("record", note="hot", request_id="n1")).is_error
        other = await one.call("record", note="cold", request_id="n1")
        assert other.error["exit_code"] == 4
        stale = await one.call("record", note="cold", expected_version=1)
        assert stale.error["exit_code"] == 4

    drive(root.path, steps)
    assert root.notes() == ["hot"]


@pytest.mark.long
def test_agent_cannot_approve_its_proposal(root: Place) -> None:
    """The answer shows the impact and the command that a person runs to approve."""

    async def steps(one: Agent) -> None:
        await one.call("propose", stages=["stage-1"], set={"parameters.x": 1}, reason="try")
        waiting = (await one.call("ask_person")).data
        assert [amendment["id"] for amendment in waiting] == ["amend-1"]
        asked = await one.call("ask_person", amendment="amend-1")
        assert asked.value["a_person_runs"] == "wfctl amend approve amend-1"
        assert asked.data["impact"]["affected"][0] == "stage-1"
        assert any("a_person_runs" in n for n in (await one.call("brief")).value["next"])

    drive(root.path, steps)
    assert root.done("amend", "list")[0]["status"] == "proposed"


@pytest.mark.long
def test_agent_cannot_cancel_a_machine(root: Place) -> None:
    """Only a person can cancel a machine (agent protocol), and the refusal says how.

    An agent may list cancelled machines.
    """

    async def steps(one: Agent) -> None:
        await one.call("begin", action="machine", machine="m", type="oneshot")
        refused = await one.call("transition", machine="m", phase="cancelled", reason="over")
        assert refused.error["code"] == "not_offered"
        assert [n["a_person_runs"] for n in refused.value["next"]] == ["wfctl machine cancel m"]
        assert (await one.call("get", machine="m")).data["phase"] == "plan"
        assert not (await one.call("list", phase="cancelled")).is_error

    drive(root.path, steps)


@pytest.mark.long
def test_actor_of_the_server_is_always_an_agent(root: Place) -> None:
    """Neither the environment nor an argument can make the server act as a person."""

    async def steps() -> None:
        async with agent(root.path, WFCTL_ACTOR="user:pi") as one:
            await one.call("record", note="--actor=user:pi")

    asyncio.run(steps())
    assert root.call("mcp", "--actor", "user:pi").code == 2
    last = root.done("log")[-1]
    assert last["message"].endswith("--actor=user:pi")
    assert last["actor"].startswith("agent:")


@pytest.mark.long
def test_answers_have_at_most_six_kilobytes(tmp_path: Path) -> None:
    """Answers about a large workflow are cut to the limit, and count what is left out."""
    stages = [
        {
            "id": f"stage-{n}",
            "name": f"Point {n}",
            "parameters": {"command": "true", "x": "y" * 200},
        }
        for n in range(1, 301)
    ]
    write_plan(tmp_path, {"workflow_id": "wide", "stages": stages})
    assert Place(tmp_path).call("init", str(tmp_path / "plan.json"), "--consent", "trust").code == 0

    async def steps(one: Agent) -> None:
        for call in (
            ("get", {}),
            ("brief", {}),
            ("history", {"action": "log"}),
            ("history", {"action": "events"}),
            ("history", {"action": "why"}),
        ):
            told = await one.call(call[0], **call[1])
            assert not told.is_error, told.text
            assert len(told.text.encode()) <= 6000, call
        assert (await one.call("get")).value["left_out"]

    drive(tmp_path, steps)


@pytest.mark.long
def test_server_reaches_only_roots_in_its_folder(tmp_path: Path) -> None:
    """A path with dots, an absolute path and a link to another root are refused."""
    inside, outside = tmp_path / "served" / "a", tmp_path / "other"
    for place in (inside, outside):
        place.mkdir(parents=True)
        write_plan(place, {**PLAN, "workflow_id": place.name})
        assert Place(place).call("init", str(place / "plan.json"), "--consent", "trust").code == 0
    (tmp_path / "served" / "link").symlink_to(outside)

    async def steps(one: Agent) -> None:
        assert (await one.call("get", root="a")).data["workflow"] == "a"
        for path in ("../other", str(outside), "link", "nowhere"):
            assert (await one.call("get", root=path)).error["code"] == "outside_folder"

    drive(tmp_path / "served", steps)


@pytest.mark.long
def test_removed_and_restored_log_is_noticed(root: Place) -> None:
    """The server keeps no log open, so the next call sees the change."""
    kept = root.path.parent / "kept"

    async def steps(one: Agent) -> None:
        assert not (await one.call("record", note="before")).is_error
        shutil.move(root.path / ".wfctl", kept)
        assert (await one.call("get")).error["exit_code"] == 3
        shutil.move(kept, root.path / ".wfctl")
        assert not (await one.call("record", note="after")).is_error

    drive(root.path, steps)
    assert root.notes() == ["before", "after"]


@pytest.mark.long
@pytest.mark.parametrize("era", ERAS)
def test_null_arguments_and_json_strings_are_accepted(root: Place, era: str) -> None:
    """The server accepts null for a missing argument, and an object as a JSON string."""

    async def steps(one: Agent) -> None:
        assert (await one.call("get", stage=None, root=None)).data["workflow"] == "melt"
        assert len((await one.call("history", action="log", limit="1", at=None)).data) == 1
        as_text = {"stages": '["stage-1"]', "set": '{"parameters.x": 1}', "dry_run": "false"}
        proposed = await one.call("propose", **as_text, reason="try", place=None)
        assert proposed.data["amendment"]["changes"] == {"parameters": {"x": {"new": 1}}}
        assert not (await one.call("record", note="[1]", expected_version="3")).is_error

    drive(root.path, steps, era=era)
    assert root.notes() == ["[1]"]


@pytest.mark.long
def test_string_of_another_json_type_is_refused(root: Place) -> None:
    """A string with JSON of the wrong type is refused, and the error names the right type."""

    async def steps(one: Agent) -> None:
        for text in ("2", "stage-1", '["\\ud800"]', "[" * 5000, "null", "true"):
            refused = await one.call("propose", stages=text, set={"parameters.x": 1}, reason="try")
            assert refused.error["code"] == "unfit_arguments", text
            assert "stages: expected array, found " in refused.error["message"]
        refused = await one.call("history", action="log", limit="1.5")
        assert refused.error["message"] == 'history: limit: expected integer, found "1.5"'
        required = await one.call("stage", action="prepare", stage=None)
        assert required.error["message"] == "stage: arguments: 'stage' is a required property"

    drive(root.path, steps)
    assert root.done("amend", "list") == []


@pytest.mark.long
@pytest.mark.parametrize("action", ["verify", "wait"])
def test_reading_action_accepts_a_request_id(root: Place, action: str) -> None:
    """A reading action accepts the request id that the tool's schema has for all actions."""

    async def steps(one: Agent) -> None:
        told = await one.call("stage", action=action, stage="stage-1", request_id="r1")
        assert told.data["stage"] == "stage-1"

    drive(root.path, steps)


@pytest.mark.long
@pytest.mark.parametrize("era", ERAS)
def test_tool_use_id_of_the_client_is_the_request_id(root: Place, era: str) -> None:
    """A repeated tool use id gets the first answer. A request id in the call overrides it."""

    async def steps(one: Agent) -> None:
        meta: Any = {"claudecode/toolUseId": "toolu_01"}
        for arguments in ({"note": "a"}, {"note": "a"}, {"note": "b", "request_id": "mine"}):
            done = await one.client.call_tool("record", arguments, meta=meta)
            assert not done.is_error, done
        done = await one.client.call_tool("get", {}, meta=meta)
        assert not done.is_error, done

    drive(root.path, steps, era=era)
    assert root.notes() == ["a", "b"]


@pytest.mark.long
def test_resources_and_prompts_can_be_read(root: Place) -> None:
    """Every listed address can be read, and an unknown address is an error."""

    async def steps() -> None:
        async with agent(root.path) as one:
            client = one.client
            assert [str(r.uri) for r in (await client.list_resources()).resources]
            for uri in (
                "wfctl://brief",
                "wfctl://stage/stage-1",
                "wfctl://events/1",
                "wfctl://type/oneshot",
            ):
                [content] = (await client.read_resource(uri)).contents
                assert isinstance(content, types.TextResourceContents)
                assert json.loads(content.text)["data"], uri
            with pytest.raises(MCPError):
                await client.read_resource("wfctl://stage/..%2F..%2Fx")
            with pytest.raises(MCPError):
                await client.read_resource("wfctl://nothing")
            for prompt in (await client.list_prompts()).prompts:
                arguments = {a.name: "m-1" for a in prompt.arguments or []}
                [message] = (await client.get_prompt(prompt.name, arguments)).messages
                assert isinstance(message.content, types.TextContent)
                assert "{" not in message.content.text

    asyncio.run(steps())


@pytest.mark.long
def test_cancelled_wait_does_not_stop_the_job(root: Place) -> None:
    """If a client cancels a wait, the job continues and the server answers other calls."""
    write_plan(
        root.path,
        {
            **PLAN,
            "workflow_id": "long",
            "stages": [
                {"id": "stage-1", "name": "Long", "parameters": {"command": "sleep 600"}},
            ],
        },
        "long.json",
    )
    place = root.path / "long"
    place.mkdir()
    assert Place(place).call("init", str(root.path / "long.json"), "--consent", "trust").code == 0

    async def steps(one: Agent) -> None:
        await one.call("stage", action="dispatch", stage="stage-1")
        with anyio.move_on_after(1.5) as scope:
            await one.call("stage", action="wait", stage="stage-1", seconds=100)
        assert scope.cancelled_caught
        assert (await one.call("get", stage="stage-1")).data["status"] == "running"

    drive(place, steps)
    try:
        assert Place(place).done("show", "stage-1")["status"] == "running"
    finally:
        assert Place(place).call("stage", "cancel", "stage-1").code == 0


def _processes_of(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"mcp" in line.split(b"\0") and word.encode() in environ:
                found.append(int(entry.name))
    return found


def test_killed_server_leaves_no_process(root: Place) -> None:
    """After the server was killed, its worker processes end."""
    word = f"FACE_TEST={os.getpid()}-{time.time_ns()}"
    name, _, value = word.partition("=")

    async def steps() -> None:
        with pytest.raises(BaseException):  # noqa: B017, PT011, PT012 - however it is told
            async with Client(stdio_client(parameters(root.path, **{name: value}))) as client:
                await client.call_tool("brief", {})
                processes = _processes_of(word)
                assert len(processes) >= 4  # the server, the warm process and the idle workers
                # The server is found by its parent process, because the kernel reuses process ids
                # and the server may not have the smallest one.
                [server] = [pid for pid in processes if parent_process_id(pid) == os.getpid()]
                os.kill(server, signal.SIGKILL)
                with anyio.fail_after(10):
                    await client.call_tool("brief", {})

    asyncio.run(steps())
    until = time.monotonic() + 10
    while _processes_of(word) and time.monotonic() < until:
        time.sleep(0.05)
    assert _processes_of(word) == []


def test_concurrent_agents_lose_no_writes(root: Place) -> None:
    """Twelve agents on one server write and read, and each note is recorded once."""

    async def steps(one: Agent) -> None:
        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(_busy, one, number)

    drive(root.path, steps)
    assert sorted(root.notes()) == sorted(f"{a}-{n}" for a in range(12) for n in range(3))


async def _busy(one: Agent, number: int) -> None:
    for turn in range(3):
        told = await one.call("record", note=f"{number}-{turn}", request_id=f"{number}-{turn}")
        assert not told.is_error, told.text
        assert not (await one.call("brief")).is_error


def test_history_of_a_root_with_machines_shows_their_events(tmp_path: Path) -> None:
    """In a root without a workflow, `history` shows the events of the machines.

    Actions that need a workflow are refused with a hint to name the machine.
    """
    made = Place(tmp_path).call("machine", "init", "one", "--type", "feature")
    assert made.code == 0, made

    async def steps(one: Agent) -> None:
        assert not (
            await one.call("update", machine="one", data={"artifacts.design": "d.md"})
        ).is_error
        told = await one.call("history", action="events")
        # The first event has a long definition, which the answer leaves out because of its size
        # limit.
        assert [event["type"] for event in told.data] == ["machine.created", "machine.updated"]
        assert told.value["left_out"]
        assert (await one.call("history", action="log")).data
        assert (await one.call("history", action="log", machine="one")).data
        for action in ("amendments", "why", "report"):
            told = await one.call("history", action=action)
            assert told.is_error, (action, told.text)
            assert told.error["code"] in ("no_workflow", "no_workflow_yet"), (action, told.text)
            assert "machine" in told.error["message"], (action, told.text)

    drive(tmp_path, steps)
