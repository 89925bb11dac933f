"""The commands ``wfctl machine``, for phase machines."""
