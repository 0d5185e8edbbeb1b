//! The PJRT C API, loaded at run time, behind a safe interface.
