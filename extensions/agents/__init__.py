"""Serve AI agents through an MCP server (Model Context Protocol) and client plugins."""
