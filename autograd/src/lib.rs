//! Tape, engine and hooks of reverse-mode differentiation.
