"""Operators that are written in Python: their schemas, their registry, and checks of them."""
