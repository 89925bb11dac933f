"""The MCP server, which lists tools, resources and prompts, and answers tool calls.

The server uses the low-level API of the protocol's library, so that the tool schemas stay short.
Each tool call is converted to a wfctl command line. The command runs in a process that is forked
from a warm process (a process that has imported everything), or in a reader (a process that runs
several reads in turn). Each command opens the log again, so that it notices a log that was moved,
restored or upgraded.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import anyio
import jsonschema
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from extensions.agents.command_lines import line_of, normalize_arguments
from extensions.agents.errors import OutsideFolder, ToolCallError, UnfitArguments
from extensions.agents.tool_answers import ToolAnswer, answer_of, build_failure
from extensions.agents.tools import TOOLS, Tool
from extensions.agents.warm_process import CommandEnd, RunningCommand, WarmProcess

Call = ServerRequestContext[Any, Any]
Ended = CommandEnd | None
T = TypeVar("T")
#: Number of readers, which are processes that run reading commands in parallel.
READERS = 2
#: Seconds to wait for a free reader, and seconds after which a slow command no longer counts as
#: using a reader.
_PATIENCE, _SLOW = 0.1, 2.0
#: Metadata field in which a client identifies a call. A repeated call has the same value, so that
#: it is not executed twice.
CALL_ID = "claudecode/toolUseId"
INSTRUCTIONS = (
    "wfctl keeps the state of a scientific workflow (stages) and of phase machines in an event "
    "log. Call `brief` first, and whenever you lose your context. It returns the next steps. "
    "After a crash, call `recover`. Change the state only with these tools: never edit "
    "workflow-state.json, progress.log, files of machines or .wfctl/. Give each write a new "
    "`request_id`. If you lose the answer, repeat the call with the same `request_id`. To change "
    "the plan, propose the change. A person decides, so show the person what `ask_person` "
    "returns. You cannot approve. `next` in an answer lists calls that wfctl accepts now. First "
    "fill in the arguments in `needs`, and meet the conditions in `before`. `root` is the "
    "workflow's folder, if it is not the server's folder."
)


class ServerState:
    """The state that all handlers share: command processes, served folder, and actor.

    Each reader process runs one reading command at a time. If a command is slow, a new reader takes
    the place of its reader. If all readers are busy, a reading command gets its own process, like a
    writing command. If ``actor`` is None, each command is recorded under the name of the client, as
    an agent.
    """

    def __init__(self, warm: WarmProcess, folder: Path, actor: str | None) -> None:
        self._warm = warm
        self._idle = [warm.start_reader() for _ in range(READERS)]
        self._free = anyio.Semaphore(READERS)
        self.folder = folder.resolve()
        self._actor = actor

    def _find_actor(self, context: Call) -> str:
        """Return the actor of a call: the fixed actor, or the client's name as an agent."""
        if self._actor is not None:
            return self._actor
        params = context.session.client_params
        name = params.client_info.name if params is not None else "mcp"
        return f"agent:{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-')[:64] or 'mcp'}"

    def root(self, named: str | None) -> Path:
        """Return the workflow folder of a call.

        Raises `OutsideFolder` if the folder does not exist below the served folder.
        """
        root = (self.folder / (named or ".")).resolve()
        if not root.is_relative_to(self.folder) or not root.is_dir():
            raise OutsideFolder(
                f"the parameter `root` has the value {str(named)!r}, but this server can use only "
                f"folders in {self.folder}. Start another server there, or start a server for a "
                "folder that contains both.",
                root=str(named),
                folder=str(self.folder),
            )
        return root

    async def run(self, line: list[str], context: Call, root: Path, *, writes: bool) -> CommandEnd:
        """Run a command line and return its result.

        If the call is cancelled, the command is stopped.

        Reading commands run in a reader process if possible. If the reader dies or all readers are
        busy, the command runs in its own process.
        """
        words = ["--output=json", "--log-level=error", *line]
        # Use the environment variable. In some commands, the option `--actor` would also filter the
        # listed events.
        environ = {"WFCTL_ACTOR": self._find_actor(context)}
        async with _report_progress(context):
            if not writes and (ended := await self._run_in_reader(words, root, environ)):
                return ended
            with self._warm.start(words, root, environ) as running:
                return await _wait_for_command(running)

    async def _run_in_reader(self, words: list[str], root: Path, environ: dict[str, str]) -> Ended:
        """Run a reading command in a reader process.

        Returns None if all readers are busy, or if the reader died.
        """
        with anyio.move_on_after(_PATIENCE) as waited:
            await self._free.acquire()
        if waited.cancelled_caught:
            return None
        reader = self._idle.pop()
        is_lent = True

        def give_back(stays: bool = False) -> None:
            """Free the reader for the next command, or replace it if it cannot be reused."""
            nonlocal is_lent
            if is_lent:
                is_lent = False
                if not stays:
                    reader.close()
                self._idle.append(reader if stays else self._warm.start_reader())
                self._free.release()

        try:
            with self._warm.start(words, root, environ, reader) as running:
                ended = await _wait_for_command(running, give_back)
                give_back(running.stays)
        except ConnectionError:
            return None
        finally:
            give_back()
        return ended if ended.code >= 0 else None


@asynccontextmanager
async def _report_progress(context: Call) -> AsyncIterator[None]:
    """Report the duration of a call to the client each second while the block runs."""

    async def beat() -> None:
        for seconds in count(1.0):
            await anyio.sleep(1.0)
            await context.session.report_progress(seconds, None, f"running for {seconds:.0f} s")

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        try:
            yield
        finally:
            group.cancel_scope.cancel()


async def _wait_for_command(
    running: RunningCommand, is_slow: Callable[[], None] = lambda: None
) -> CommandEnd:
    """Wait for a command and return its result.

    If the call is cancelled, the command is stopped. If the command is slow, ``is_slow`` is called.
    """
    try:
        while True:
            with anyio.move_on_after(_SLOW) as in_time:
                await anyio.wait_readable(running.news)
            if in_time.cancelled_caught:
                is_slow()
            elif (ended := running.wait_for_message()) is not None:
                return ended
    except anyio.get_cancelled_exc_class():
        running.stop()
        raise


def build_server(face: ServerState, version: str) -> Server[Any]:
    """Return the MCP server with its tools, resources and prompts."""
    tools = [describe_tool(tool) for tool in TOOLS.values()]
    return Server(
        "wfctl",
        version=version,
        instructions=INSTRUCTIONS,
        on_list_tools=_build_constant_handler(types.ListToolsResult(tools=tools)),
        on_call_tool=partial(_call_tool, face),
        on_list_resources=_build_constant_handler(types.ListResourcesResult(resources=RESOURCES)),
        on_list_resource_templates=_build_constant_handler(
            types.ListResourceTemplatesResult(resource_templates=TEMPLATES)
        ),
        on_read_resource=partial(_read_resource, face),
        on_list_prompts=_build_constant_handler(types.ListPromptsResult(prompts=PROMPTS)),
        on_get_prompt=_get_prompt,
    )


def _build_constant_handler(result: T) -> Callable[[Call, Any], Awaitable[T]]:
    async def handler(_context: Call, _params: Any) -> T:
        return result

    return handler


async def _call_tool(
    face: ServerState, context: Call, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Run a tool call and return its answer.

    If the command refuses, the answer is an error.
    """
    answer = await _answer_call(face, context, params)
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
    return types.CallToolResult(content=content, is_error=answer.is_error)


async def _answer_call(
    face: ServerState, context: Call, params: types.CallToolRequestParams
) -> ToolAnswer:
    once = (params.meta or {}).get(CALL_ID)
    tool = TOOLS.get(params.name)
    if tool is None:
        raise _build_invalid_error(
            f"no tool has the name {params.name!r}; the tools are {', '.join(TOOLS)}"
        )
    given = normalize_arguments(tool, params.arguments or {})
    validator = jsonschema.Draft202012Validator({**tool.schema, "additionalProperties": False})
    problems = [
        f"{'.'.join(map(str, e.path)) or 'arguments'}: {_explain_problem(e)}"
        for e in validator.iter_errors(given)
    ][:5]
    try:
        if problems:
            raise UnfitArguments(f"{tool.name}: {'; '.join(problems)}", problems=problems)
        line = line_of(tool, given, once if isinstance(once, str) else None)
        root = face.root(given.get("root"))
    except ToolCallError as error:
        return build_failure(error.code, str(error), error.data)
    ended = await face.run(line, context, root, writes=tool.writes)
    person = tool.decided_by.format(**given) if tool.decided_by and given.get("amendment") else None
    return answer_of(*ended, writes=tool.writes, person=person)


def _explain_problem(error: jsonschema.ValidationError) -> str:
    if error.validator == "type":
        found = json.dumps(error.instance, ensure_ascii=False)
        return f"expected {error.validator_value}, found {found[:200]}"
    return error.message[:200]


async def _read_resource(
    face: ServerState, context: Call, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = str(params.uri)
    line: list[str] = []
    for _, ours, _, words in _LINES:
        if found := re.fullmatch(re.sub(r"\{\w+\}", "([^/]+)", ours), uri):
            held = unquote("".join(found.groups()))
            line = [word.replace("{}", held) for word in words.split()]
    if not line:
        raise _build_invalid_error(
            f"no resource has the address {uri!r}; expected an address that matches a "
            "resource template"
        )
    answer = answer_of(*await face.run(line, context, face.folder, writes=False), writes=False)
    if answer.is_error:
        raise _build_invalid_error(answer.text)
    text = types.TextResourceContents(uri=uri, text=answer.text, mime_type="application/json")
    return types.ReadResourceResult(contents=[text])


async def _get_prompt(
    _context: Call, params: types.GetPromptRequestParams
) -> types.GetPromptResult:
    if params.name not in _PROMPTS:
        raise _build_invalid_error(
            f"no prompt has the name {params.name!r}; prompts/list returns the names"
        )
    _, field, text = _PROMPTS[params.name]
    if field:
        given = (params.arguments or {}).get(field)
        text = text.replace(f"{{{field}}}", given or f"the {field}")
    content = types.TextContent(type="text", text=text)
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


def _build_invalid_error(message: str) -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message=message)


def describe_tool(tool: Tool) -> types.Tool:
    """Return the description of a tool in the form that MCP clients receive."""
    hints = types.ToolAnnotations(
        read_only_hint=True if not tool.writes else None,
        destructive_hint=tool.destroys if tool.writes else None,
        idempotent_hint=True if tool.name == "recover" else None,
        open_world_hint=tool.reaches_out,
    )
    return types.Tool(
        name=tool.name, description=tool.says, input_schema=tool.schema, annotations=hints
    )


#: Texts of the prompts that clients can list and read.
_RESUME = (
    "Call `recover`, then `brief`. Summarize in two sentences the state of the work and what "
    "waits for a person. Then make the calls in `next`, one at a time, until only a person or a "
    "running job can continue the work. Before you stop, call `checkpoint`."
)
_CHECKPOINT = (
    "Call `checkpoint` for {machine} now. In `summary`, state what is done and how you "
    "checked it. In `next`, list the next steps in order. Write each step for a reader "
    "who knows nothing else."
)
_REVIEW = (
    "Call `check` with action `plan` and plan {plan}, and fix the problems that it reports. Then "
    "review the plan as a scientist who must trust its results. Does each stage state its inputs, "
    "its output files and how to check them (`parameters.verify`)? Does it state units and random "
    "seeds? Is each dependency correct? Before `begin`, list your questions to the scientist."
)
#: Name of a prompt → its description, its optional argument, and its text.
_PROMPTS = {
    "resume": ("Continue the work after a lost session", "", _RESUME),
    "checkpoint": (
        "Record a summary and next steps before you lose your context",
        "machine",
        _CHECKPOINT,
    ),
    "review_plan": ("Review a plan before you create a workflow from it", "plan", _REVIEW),
}
PROMPTS = [
    types.Prompt(
        name=name,
        description=says,
        arguments=[types.PromptArgument(name=field, required=True)] if field else [],
    )
    for name, (says, field, _) in _PROMPTS.items()
]


#: Resources: name, address, description and command line. ``{}`` stands for the value in the
#: address.
_LINES = (
    (
        "brief",
        "wfctl://brief",
        "The current state and the next steps",
        "rehydrate --dry-run --brief=1500",
    ),
    ("machines", "wfctl://machines", "The list of all machines", "machine list"),
    ("stage", "wfctl://stage/{id}", "The state of a stage and its attempts", "show -- {}"),
    ("machine", "wfctl://machine/{id}", "The state of a machine", "machine get -- {}"),
    (
        "machine-brief",
        "wfctl://machine/{id}/brief",
        "The current state and next steps of a machine, after a lost session",
        "machine rehydrate --dry-run -- {}",
    ),
    (
        "type",
        "wfctl://type/{type}",
        "The phases, transitions and guards of a type of machine",
        "machine describe -- {}",
    ),
    (
        "events",
        "wfctl://events/{after}",
        "The events that were recorded after a log version",
        "events --since={}",
    ),
)
_JSON: Any = {"mime_type": "application/json"}
RESOURCES = [
    types.Resource(name=name, uri=uri, description=says, **_JSON)
    for name, uri, says, _ in _LINES
    if "{" not in uri
]
TEMPLATES = [
    types.ResourceTemplate(name=name, uri_template=uri, description=says, **_JSON)
    for name, uri, says, _ in _LINES
    if "{" in uri
]
