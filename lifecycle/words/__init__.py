"""The vocabulary of the rules: ids, paths, limits, number formats and documents."""
