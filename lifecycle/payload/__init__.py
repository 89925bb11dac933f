"""The data of events: data models, their shapes and their schema versions."""
