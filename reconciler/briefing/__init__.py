"""Write a briefing for a user or an agent who continues a workflow after a lost session."""
