"""Code that commands share: options, opened workflows, consent and errors."""
