"""The MCP server: what clients list, call and read.

Written on the protocol's low-level server, as the tools' schemas are ours to keep short. A call
takes a command line from the table of tools, and a process from the warm one or a reader, which
opens the log anew. So a log that is moved, restored or upgraded meanwhile is seen by the next call.
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

from agents.answers import ToolAnswer, answer_of, failure
from agents.errors import OutsideFolder, ToolCallError, UnfitArguments
from agents.lines import line_of, read_arguments
from agents.tools import TOOLS, Tool
from agents.warm import CommandEnd, Running, Warm

Call = ServerRequestContext[Any, Any]
Ended = CommandEnd | None
T = TypeVar("T")
#: Reads that are carried out at once by readers.
READERS = 2
#: Seconds that a read waits for one of them, and after which it holds up no other.
_PATIENCE, _SLOW = 0.1, 2.0
#: Where a client names the call, the same each time that it sends it.
CALL_ID = "claudecode/toolUseId"
INSTRUCTIONS = (
    "wfctl keeps the state of a scientific workflow (stages) and of phase machines in an event "
    "log. Call `brief` first and whenever your context was lost; it says what to do next. After a "
    "crash call `recover`. Change state by these tools alone: never edit workflow-state.json, "
    "progress.log, files of machines or .wfctl/. Give each write a request_id of your own; after a "
    "lost answer repeat the call with the same one. A change of definition is proposed, and a "
    "person decides: show them what `ask_person` returns. You cannot approve. `next` in an answer "
    "holds calls that are accepted as they stand, but for the arguments in `needs`; `before` must "
    "be there first. `root` in a call is the workflow's folder, where it is not the server's own."
)


class Face:
    """What the handlers share: the warm process, its readers, the folder, and who acts.

    Reads are carried out by readers, of which each is lent one read at a time. A read that takes
    long keeps its reader, and another takes that one's place. Where all are busy for longer than a
    moment, a read has a process of its own, as a write has.
    ``actor`` is fixed; None: the client's own name, as an agent.
    """

    def __init__(self, warm: Warm, folder: Path, actor: str | None) -> None:
        self._warm = warm
        self._idle = [warm.reader() for _ in range(READERS)]
        self._free = anyio.Semaphore(READERS)
        self.folder = folder.resolve()
        self._actor = actor

    def _acting(self, context: Call) -> str:
        """Return who acts in a call: always an agent."""
        if self._actor is not None:
            return self._actor
        params = context.session.client_params
        name = params.client_info.name if params is not None else "mcp"
        return f"agent:{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-')[:64] or 'mcp'}"

    def root(self, named: str | None) -> Path:
        """Return the folder of a call; raises `OutsideFolder`."""
        root = (self.folder / (named or ".")).resolve()
        if not root.is_relative_to(self.folder) or not root.is_dir():
            raise OutsideFolder(
                f"root: expected a folder in {self.folder}, for which this server was started; "
                f"found {str(named)!r}. Start another server there, or give it a folder "
                "above both.",
                root=str(named),
                folder=str(self.folder),
            )
        return root

    async def run(self, line: list[str], context: Call, root: Path, *, writes: bool) -> CommandEnd:
        """Carry out a command line; where the call is cancelled, its command is ended.

        A read whose reader dies of it is carried out once more, by a process of its own.
        """
        words = ["--output=json", "--log-level=error", *line]
        # As an option it would also choose whose events are read.
        environ = {"WFCTL_ACTOR": self._acting(context)}
        async with _progress(context):
            if not writes and (ended := await self._read(words, root, environ)):
                return ended
            with self._warm.start(words, root, environ) as running:
                return await _end_of(running)

    async def _read(self, words: list[str], root: Path, environ: dict[str, str]) -> Ended:
        """Carry out a read by a reader; None if all are busy, or where that died."""
        with anyio.move_on_after(_PATIENCE) as waited:
            await self._free.acquire()
        if waited.cancelled_caught:
            return None
        reader = self._idle.pop()
        is_lent = True

        def give_back(stays: bool = False) -> None:
            """Let it carry out another read; else another takes its place, and it ends with it."""
            nonlocal is_lent
            if is_lent:
                is_lent = False
                if not stays:
                    reader.close()
                self._idle.append(reader if stays else self._warm.reader())
                self._free.release()

        try:
            with self._warm.start(words, root, environ, reader) as running:
                ended = await _end_of(running, give_back)
                give_back(running.stays)
        except ConnectionError:
            return None
        finally:
            give_back()
        return ended if ended.code >= 0 else None


@asynccontextmanager
async def _progress(context: Call) -> AsyncIterator[None]:
    """Report how long it has taken, each second, to a client that asked for it."""

    async def beat() -> None:
        for seconds in count(1.0):
            await anyio.sleep(1.0)
            await context.session.report_progress(seconds, None, f"under way for {seconds:.0f} s")

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        try:
            yield
        finally:
            group.cancel_scope.cancel()


async def _end_of(running: Running, is_slow: Callable[[], None] = lambda: None) -> CommandEnd:
    """Wait for the end of a command, which ends if the call is cancelled; tell if it is slow."""
    try:
        while True:
            with anyio.move_on_after(_SLOW) as in_time:
                await anyio.wait_readable(running.news)
            if in_time.cancelled_caught:
                is_slow()
            elif (ended := running.hear()) is not None:
                return ended
    except anyio.get_cancelled_exc_class():
        running.stop()
        raise


def build(face: Face, version: str) -> Server[Any]:
    """Return the server."""
    tools = [described(tool) for tool in TOOLS.values()]
    return Server(
        "wfctl",
        version=version,
        instructions=INSTRUCTIONS,
        on_list_tools=_always(types.ListToolsResult(tools=tools)),
        on_call_tool=partial(_call_tool, face),
        on_list_resources=_always(types.ListResourcesResult(resources=RESOURCES)),
        on_list_resource_templates=_always(
            types.ListResourceTemplatesResult(resource_templates=TEMPLATES)
        ),
        on_read_resource=partial(_read_resource, face),
        on_list_prompts=_always(types.ListPromptsResult(prompts=PROMPTS)),
        on_get_prompt=_get_prompt,
    )


def _always(result: T) -> Callable[[Call, Any], Awaitable[T]]:
    async def handler(_context: Call, _params: Any) -> T:
        return result

    return handler


async def _call_tool(
    face: Face, context: Call, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Carry out a call; what a command refuses is an answer that says so."""
    answer = await _called(face, context, params)
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
    return types.CallToolResult(content=content, is_error=answer.is_error)


async def _called(face: Face, context: Call, params: types.CallToolRequestParams) -> ToolAnswer:
    once = (params.meta or {}).get(CALL_ID)
    tool = TOOLS.get(params.name)
    if tool is None:
        raise _invalid(f"expected a tool of {', '.join(TOOLS)}; found {params.name!r}")
    given = read_arguments(tool, params.arguments or {})
    validator = jsonschema.Draft202012Validator({**tool.schema, "additionalProperties": False})
    problems = [
        f"{'.'.join(map(str, e.path)) or 'arguments'}: {_problem(e)}"
        for e in validator.iter_errors(given)
    ][:5]
    try:
        if problems:
            raise UnfitArguments(f"{tool.name}: {'; '.join(problems)}", problems=problems)
        line = line_of(tool, given, once if isinstance(once, str) else None)
        root = face.root(given.get("root"))
    except ToolCallError as error:
        return failure(error.code, str(error), error.data)
    ended = await face.run(line, context, root, writes=tool.writes)
    person = tool.decided_by.format(**given) if tool.decided_by and given.get("amendment") else None
    return answer_of(*ended, writes=tool.writes, person=person)


def _problem(error: jsonschema.ValidationError) -> str:
    if error.validator == "type":
        found = json.dumps(error.instance, ensure_ascii=False)
        return f"expected {error.validator_value}, found {found[:200]}"
    return error.message[:200]


async def _read_resource(
    face: Face, context: Call, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = str(params.uri)
    line: list[str] = []
    for _, ours, _, words in _LINES:
        if found := re.fullmatch(re.sub(r"\{\w+\}", "([^/]+)", ours), uri):
            held = unquote("".join(found.groups()))
            line = [word.replace("{}", held) for word in words.split()]
    if not line:
        raise _invalid(f"expected an address of the resource templates, found {uri!r}")
    answer = answer_of(*await face.run(line, context, face.folder, writes=False), writes=False)
    if answer.is_error:
        raise _invalid(answer.text)
    text = types.TextResourceContents(uri=uri, text=answer.text, mime_type="application/json")
    return types.ReadResourceResult(contents=[text])


async def _get_prompt(
    _context: Call, params: types.GetPromptRequestParams
) -> types.GetPromptResult:
    if params.name not in _PROMPTS:
        raise _invalid(f"expected a prompt of the list, found {params.name!r}")
    _, field, text = _PROMPTS[params.name]
    if field:
        given = (params.arguments or {}).get(field)
        text = text.replace(f"{{{field}}}", given or f"the {field}")
    content = types.TextContent(type="text", text=text)
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


def _invalid(message: str) -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message=message)


def described(tool: Tool) -> types.Tool:
    """Return a tool as the protocol lists it."""
    hints = types.ToolAnnotations(
        read_only_hint=not tool.writes,
        destructive_hint=tool.destroys if tool.writes else None,
        idempotent_hint=True if tool.name == "recover" else None,
        open_world_hint=tool.reaches_out,
    )
    return types.Tool(
        name=tool.name, description=tool.says, input_schema=tool.schema, annotations=hints
    )


#: What clients may pick: prompts; and what they may read: resources by their address.
_RESUME = (
    "Call `recover`, then `brief`. Say in two sentences where the work stands and what waits for a "
    "person. Then carry out the calls in `next`, one at a time, until only a person or a running "
    "job can go on. Before you stop, call `checkpoint`."
)
_CHECKPOINT = (
    "Call `checkpoint` for {machine} now. In `summary` say what is done and how it was checked. In "
    "`next` give the next steps in order, each so that somebody who knows nothing else can take it."
)
_REVIEW = (
    "Call `check` with action `plan` and plan {plan}, and mend what it names. Then read it as "
    "the scientist who has to trust its results. Does each stage say what it needs, which files it "
    "writes and when it is good (`parameters.verify`)? Are units and seeds stated? Does each "
    "dependency hold? List what you would ask them before `begin`."
)
#: Name → what it says, its one argument if it takes one, and its text.
_PROMPTS = {
    "resume": ("Go on with the work after a lost session", "", _RESUME),
    "checkpoint": ("Leave a hand-off before the context is lost", "machine", _CHECKPOINT),
    "review_plan": ("Look at a plan before it becomes a workflow", "plan", _REVIEW),
}
PROMPTS = [
    types.Prompt(
        name=name,
        description=says,
        arguments=[types.PromptArgument(name=field, required=True)] if field else [],
    )
    for name, (says, field, _) in _PROMPTS.items()
]


#: Name, address, what it says, and the command line, in which ``{}`` is what the address holds.
_LINES = (
    ("brief", "wfctl://brief", "Where the work stands", "rehydrate --dry-run --brief=1500"),
    ("machines", "wfctl://machines", "All machines", "machine list"),
    ("stage", "wfctl://stage/{id}", "One stage", "show -- {}"),
    ("machine", "wfctl://machine/{id}", "One machine", "machine get -- {}"),
    (
        "machine-brief",
        "wfctl://machine/{id}/brief",
        "A machine after a lost session",
        "machine rehydrate --dry-run -- {}",
    ),
    ("type", "wfctl://type/{type}", "A machine's type", "machine describe -- {}"),
    ("events", "wfctl://events/{after}", "Events after a version", "events --since={}"),
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
