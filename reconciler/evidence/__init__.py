"""What is so of an attempt at one moment, here and on other machines."""
