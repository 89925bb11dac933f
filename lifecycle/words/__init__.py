"""Terms and values that the rules use: ids, paths, limits, number formats and documents."""
