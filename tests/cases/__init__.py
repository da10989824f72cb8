"""Faults that real KV-cache managers had, retold as small cases; each test is named after its case's id."""
