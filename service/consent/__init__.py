"""Consent: the signed content, the allowed signers, and the valid approvals."""
