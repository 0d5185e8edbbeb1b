//! Builds StableHLO modules and prints them as text; knows no tensor.
