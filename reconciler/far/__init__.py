"""Access to remote machines: a helper process that holds the credentials, and scripts."""
