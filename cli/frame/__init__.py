"""Code that the commands share: options, opened workflows, consent and errors."""
