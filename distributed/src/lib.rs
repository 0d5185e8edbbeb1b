//! Process groups, collectives and sharding.

#![forbid(unsafe_code)]

pub mod store;
