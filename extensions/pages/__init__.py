"""Show workflows in the browser."""
