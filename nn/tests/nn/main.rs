//! Tests of modules, losses, optimisers, data loading and files of tensors, as one program.
//!
//! The tests on `tpu` need a PJRT plugin, which `tests/summary.py` provides.

mod activations;
mod attention;
mod clipping;
mod close;
mod common;
mod data;
mod dropout;
mod embedding;
mod goldens;
mod linear;
mod losses;
mod module;
mod optim;
mod recurrent;
mod safetensors;
mod schedules;
mod spatial;
