//! Extensions of the PJRT C API: structs of a kind each, in a chain that the plugin hands out.

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

/// The plugin's extension of this kind, if it has one that is as large as `T`.
///
/// # Safety
///
/// `T` must be the struct, or its beginning, that the C API gives to extensions of this kind.
pub(crate) unsafe fn find<T: Copy>(plugin: &Plugin, kind: c_int) -> Option<T> {
    let mut next = plugin.api.extension_start.cast::<Extension>();
    while !next.is_null() {
        // SAFETY: every extension opens with its size, kind and successor, and lives as long as the library.
        let base = unsafe { &*next };
        if base.kind == kind && base.struct_size >= size_of::<T>() {
            // SAFETY: an extension of this kind and size; the caller vouches for the type.
            return Some(unsafe { *next.cast::<T>() });
        }
        next = base.next;
    }
    None
}
