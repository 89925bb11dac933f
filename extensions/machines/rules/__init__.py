"""Phase machines: definitions as data, their guards, and the rules that run any of them."""
