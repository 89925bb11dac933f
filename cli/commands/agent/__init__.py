"""The commands of ``wfctl agent``: what makes a client of an agent know wfctl."""
