"""Attacks: by an agent under the scientist's own login, by a stranger's file, by another login."""
