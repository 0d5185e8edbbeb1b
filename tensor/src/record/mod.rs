//! The records that a call leaves for backward: nodes, saved tensors, hooks, and lines of the user's program.

pub(crate) mod formula;
mod grad;
pub mod graph;
pub mod hooks;
pub mod remade;
pub mod saved;
pub mod site;
