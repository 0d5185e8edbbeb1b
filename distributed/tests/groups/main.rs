//! Tests of process groups: results, messages, mistakes, faults, and processes that die.

mod collectives;
mod faults;
mod messages;
mod mistakes;
mod processes;
mod ranks;
mod reducer;
mod tensors;
