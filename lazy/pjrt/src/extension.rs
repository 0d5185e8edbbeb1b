//! Extensions of the PJRT C API: a chain of structs of different kinds, provided by the plugin.

use std::ffi::c_int;

use crate::plugin::Plugin;

/// `PJRT_Extension_Base`, and `XLA_FFI_Extension_Base`, which has the same fields.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Extension {
    pub struct_size: usize,
    pub kind: c_int,
    pub next: *mut Extension,
}

/// Return the plugin's extension of this kind, if it has one at least as large as `T`.
///
/// # Safety
///
/// `T` must be the struct of extensions of this kind in the C API, or its beginning.
pub(crate) unsafe fn find<T: Copy>(plugin: &Plugin, kind: c_int) -> Option<T> {
    let mut next = plugin.api.extension_start.cast::<Extension>();
    while !next.is_null() {
        // SAFETY: every extension starts with its size, kind and successor, and lives as long as the library.
        let base = unsafe { &*next };
        if base.kind == kind && base.struct_size >= size_of::<T>() {
            // SAFETY: the extension has this kind and at least this size, and the caller passes the right type.
            return Some(unsafe { *next.cast::<T>() });
        }
        next = base.next;
    }
    None
}
