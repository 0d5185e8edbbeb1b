//! What a call leaves behind for backward: nodes, saved tensors, hooks, and the line of the user's program.

mod grad;
pub mod graph;
pub mod hooks;
pub mod saved;
pub mod site;
