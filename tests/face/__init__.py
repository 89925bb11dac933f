"""The agent's face: tools over the Model Context Protocol, by its own clients."""
