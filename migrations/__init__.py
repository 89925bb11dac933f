"""How a database comes to have the tables of this program."""
