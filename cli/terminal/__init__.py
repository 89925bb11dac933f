"""Terminal output: lines, tables, pages and progress messages."""
