//! Trace, segments, compilation cache and execution on PJRT devices.
