"""A client of the Model Context Protocol that calls the real server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

HERE = Path(__file__).resolve().parents[2]
#: The two generations of the Model Context Protocol.
ERAS = ("2026-07-28", "legacy")


class Told(NamedTuple):
    """The answer to a call."""

    is_error: bool
    text: str

    @property
    def value(self) -> Any:
        """The answer as JSON."""
        return json.loads(self.text)

    @property
    def data(self) -> Any:
        """The data of a successful answer."""
        assert not self.is_error, self.text
        return self.value.get("data")

    @property
    def error(self) -> Any:
        """The error of an unsuccessful answer."""
        assert self.is_error, self.text
        return self.value["error"]


class Agent:
    """An agent that calls tools."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Told:
        """Call a tool and return its answer, which must be plain text."""
        result = await self.client.call_tool(tool, arguments)
        assert result.structured_content is None
        [content] = result.content
        assert isinstance(content, types.TextContent)
        return Told(bool(result.is_error), content.text)


def parameters(folder: Path, *arguments: str, **environ: str) -> StdioServerParameters:
    """Return the parameters with which a client starts the server for a folder."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "cli.main", "mcp", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HERE), **environ},
    )


@asynccontextmanager
async def agent(
    folder: Path, *arguments: str, era: str = ERAS[0], **environ: str
) -> AsyncIterator[Agent]:
    """Start the server for a folder and connect an agent to it."""
    transport = stdio_client(parameters(folder, *arguments, **environ))
    async with Client(transport, mode=era) as client:
        yield Agent(client)


def drive(
    folder: Path, steps: Callable[[Agent], Awaitable[None]], *arguments: str, era: str = ERAS[0]
) -> None:
    """Connect an agent to a folder and let it take some steps."""

    async def run() -> None:
        async with agent(folder, *arguments, era=era) as one:
            await steps(one)

    asyncio.run(run())
