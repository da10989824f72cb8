"""Unit tests of the native classes one by one, of their arguments, and of what importing them loads."""
