"""Reaching machines where jobs run: a helper process that holds the credentials, and scripts."""
