"""How amendments, times and the text of others are said."""
