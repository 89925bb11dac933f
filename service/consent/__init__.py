"""Consent: what is signed, who may sign, and which approvals count."""
