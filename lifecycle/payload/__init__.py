"""The data of events: models, shapes, versions."""
