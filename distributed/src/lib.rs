//! Process groups, collectives and sharding.
