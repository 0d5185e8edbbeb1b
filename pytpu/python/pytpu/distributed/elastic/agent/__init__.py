"""The agent of a node."""
