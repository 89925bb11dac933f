"""Consent of a person: the content to sign, the allowed signers, and the valid approvals."""
