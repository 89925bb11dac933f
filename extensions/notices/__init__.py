"""Send notices of decisions, failures and the end to a program or web address."""
