"""Read documents of other authors with size limits and precise error locations."""
