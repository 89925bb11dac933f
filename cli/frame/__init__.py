"""What commands share: options, the objects that do the work, consent, errors."""
