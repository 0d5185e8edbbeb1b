//! The torch-shaped Python package.
