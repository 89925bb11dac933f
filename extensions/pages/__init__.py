"""Show workflows as web pages in the browser."""
