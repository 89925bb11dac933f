"""Read documents of other programs, with size limits and exact error locations."""
