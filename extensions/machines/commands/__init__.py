"""``wfctl machine …``: phase machines."""
