//! What a tensor is, and what every op means.
