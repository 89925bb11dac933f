"""The rules of phase machines: their definitions, guards, commands and states."""
