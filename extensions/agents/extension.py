"""What the extension agents adds to the core of wfctl."""

from __future__ import annotations

from wfctl_eventstore.extension import Extension


class AgentsExtension(Extension):
    """Serve AI agents: the MCP server and the plugins of their clients."""

    commands = {
        "mcp": "extensions.agents.mcp_command",
        "agent install": "extensions.agents.plugin_command",
        "agent uninstall": "extensions.agents.plugin_command",
        "agent hook": "extensions.agents.hook_command",
    }
    help_sections = {
        "Agents": {
            "mcp": "Serve agents over the Model Context Protocol (MCP)",
            "agent": "Install the wfctl plugin for a coding agent",
        },
    }
    groups = {"agent": None}


EXTENSION = AgentsExtension()
