"""Attacks by an agent under the scientist's account, by a stranger's file and by another user."""
