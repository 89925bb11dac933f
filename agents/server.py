"""The MCP server: what clients list, call and read.

Written on the protocol's low-level server, as the tools' schemas are ours to keep short. A call
takes a command line from the table of tools, and a process from the warm one or a reader, which
opens the log anew. So a log that is moved, restored or upgraded meanwhile is seen by the next call.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from agents.answers import ToolAnswer, answer_of, failure
from agents.errors import OutsideFolder, ToolCallError, UnfitArguments
from agents.lines import line_of
from agents.prompts import PROMPTS, RESOURCES, TEMPLATES, prompt_of, resource_line
from agents.readers import SLOW, Loan, Readers
from agents.tools import TOOLS, Tool
from agents.warm import CommandEnd, Running, Warm

Call = ServerRequestContext[Any, Any]
JSON = "application/json"
#: Where a client names the call, the same each time that it sends it.
CALL_ID = "claudecode/toolUseId"
#: Seconds between two notes of progress.
_BEAT = 1.0
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
    """What the handlers share: the warm process, the folder, and who acts.

    ``actor`` is fixed; None: the client's own name, as an agent.
    """

    def __init__(self, warm: Warm, folder: Path, actor: str | None) -> None:
        self._warm = warm
        self._readers = Readers(warm)
        self.folder = folder.resolve()
        self._actor = actor

    def actor(self, context: Call) -> str:
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
            raise OutsideFolder(str(named), str(self.folder))
        return root

    async def run(self, line: list[str], context: Call, root: Path, *, writes: bool) -> CommandEnd:
        """Carry out a command line; where the call is cancelled, its command is ended.

        A read whose reader dies of it is carried out once more, by a process of its own.
        """
        words = ["--output=json", "--log-level=error", *line]
        # As an option it would also choose whose events are read.
        environ = {"WFCTL_ACTOR": self.actor(context)}
        async with _progress(context):
            if not writes:
                async with self._readers.lent() as loan:
                    if loan is not None and (ended := await self._read(words, root, environ, loan)):
                        return ended
            with self._warm.start(words, root, environ) as running:
                return await _end_of(running)

    async def _read(
        self, words: list[str], root: Path, environ: dict[str, str], loan: Loan
    ) -> CommandEnd | None:
        """Carry out a read by a reader; None where that died."""
        try:
            with self._warm.start(words, root, environ, loan.reader) as running:
                ended = await _end_of(running, loan.give_up)
                if running.stays:
                    loan.give_back()
        except ConnectionError:
            return None
        return ended if ended.code >= 0 else None


@asynccontextmanager
async def _progress(context: Call) -> AsyncIterator[None]:
    """Report how long it has taken, each second, to a client that asked for it."""
    async with anyio.create_task_group() as group:
        group.start_soon(_beat, context)
        try:
            yield
        finally:
            group.cancel_scope.cancel()


async def _beat(context: Call) -> None:
    seconds = 0.0
    while True:
        await anyio.sleep(_BEAT)
        seconds += _BEAT
        await context.session.report_progress(seconds, None, f"under way for {seconds:.0f} s")


async def _end_of(running: Running, is_slow: Callable[[], None] = lambda: None) -> CommandEnd:
    """Wait for the end of a command, and end it where the call is cancelled.

    ``is_slow`` is told where it takes longer than a read should.
    """
    try:
        while True:
            with anyio.move_on_after(SLOW) as in_time:
                await anyio.wait_readable(running.news)
            if in_time.cancelled_caught:
                is_slow()
            elif (ended := running.hear()) is not None:
                return ended
    except anyio.get_cancelled_exc_class():
        running.stop()
        raise


class Handlers:
    """One method for each request of the protocol."""

    def __init__(self, face: Face) -> None:
        self._face = face

    async def list_tools(self, _context: Any, _params: Any) -> types.ListToolsResult:
        """Return the tools, all at once."""
        return types.ListToolsResult(tools=[described(tool) for tool in TOOLS.values()])

    async def call_tool(
        self, context: Call, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Carry out a call; what a command refuses is an answer that says so."""
        once = (params.meta or {}).get(CALL_ID)
        given = params.arguments or {}
        answer = await _called(self._face, context, params.name, given, once)
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
        return types.CallToolResult(content=content, is_error=answer.is_error)

    async def list_resources(self, _context: Any, _params: Any) -> types.ListResourcesResult:
        """Return the addresses that are always there."""
        return types.ListResourcesResult(resources=RESOURCES)

    async def list_templates(
        self, _context: Any, _params: Any
    ) -> types.ListResourceTemplatesResult:
        """Return the addresses that hold an id."""
        return types.ListResourceTemplatesResult(resource_templates=TEMPLATES)

    async def read_resource(
        self, context: Call, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return what lies at an address; raises `MCPError`."""
        uri = str(params.uri)
        line = resource_line(uri)
        if line is None:
            raise _invalid(f"expected an address of the resource templates, found {uri!r}")
        answer = answer_of(
            *await self._face.run(line, context, self._face.folder, writes=False), writes=False
        )
        if answer.is_error:
            raise _invalid(answer.text)
        text = types.TextResourceContents(uri=uri, text=answer.text, mime_type=JSON)
        return types.ReadResourceResult(contents=[text])

    async def list_prompts(self, _context: Any, _params: Any) -> types.ListPromptsResult:
        """Return the prompts."""
        return types.ListPromptsResult(prompts=PROMPTS)

    async def get_prompt(
        self, _context: Any, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Return a prompt with its arguments filled in; raises `MCPError`."""
        text = prompt_of(params.name, params.arguments or {})
        if text is None:
            raise _invalid(f"expected a prompt of the list, found {params.name!r}")
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


def build(face: Face, version: str) -> Server[Any]:
    """Return the server."""
    handlers = Handlers(face)
    return Server(
        "wfctl",
        version=version,
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )


def _invalid(message: str) -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message=message)


async def _called(
    face: Face, context: Call, name: str, given: dict[str, Any], once: object = None
) -> ToolAnswer:
    tool = TOOLS.get(name)
    if tool is None:
        raise _invalid(f"expected a tool of {', '.join(TOOLS)}; found {name!r}")
    try:
        _check(tool, given)
        line = line_of(tool, given, once if isinstance(once, str) else None)
        root = face.root(given.get("root"))
    except ToolCallError as error:
        return failure(error.code, str(error), error.data)
    ended = await face.run(line, context, root, writes=tool.writes)
    person = tool.decided_by.format(**given) if tool.decided_by and given.get("amendment") else None
    return answer_of(*ended, writes=tool.writes, person=person)


def _check(tool: Tool, given: dict[str, Any]) -> None:
    validator = jsonschema.Draft202012Validator({**tool.schema, "additionalProperties": False})
    problems = [
        f"{'.'.join(map(str, e.path)) or 'arguments'}: {e.message[:200]}"
        for e in validator.iter_errors(given)
    ]
    if problems:
        raise UnfitArguments(f"{tool.name}: {'; '.join(problems[:5])}", problems=problems[:5])


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
