"""Functions of the `torch` module that are not in the op table. `functions` publishes them."""
