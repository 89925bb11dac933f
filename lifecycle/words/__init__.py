"""The words of the rules: ids, paths, bounds, spellings of numbers, documents."""
