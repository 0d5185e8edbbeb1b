//! Process groups, collectives and sharding.

#![forbid(unsafe_code)]

pub mod rendezvous;
pub mod store;
