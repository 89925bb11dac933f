"""Documents of others: read with limits, and with the place of what is wrong."""
