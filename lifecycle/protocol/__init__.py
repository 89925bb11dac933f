"""The protocol as its promises say it, beside the rules that keep it and apart from them."""
