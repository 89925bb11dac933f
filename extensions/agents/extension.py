"""Register the extension ``agents`` with the core of wfctl."""

from __future__ import annotations

from wfctl_eventstore.extension import Extension


class AgentsExtension(Extension):
    """Serve AI agents through an MCP server (Model Context Protocol) and client plugins."""

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
