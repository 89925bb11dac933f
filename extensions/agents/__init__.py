"""Serve AI agents: the MCP server and the plugins of their clients."""
