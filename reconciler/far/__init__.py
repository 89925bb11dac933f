"""Access remote machines through a helper process and scripts.

Only the helper process reads the credentials.
"""
