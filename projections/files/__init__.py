"""The files that people read, as the state shows in them."""
