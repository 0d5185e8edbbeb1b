//! Python objects that the history of a tensor owns, for Python's garbage collector.

use super::kept::Kept;
use super::python_backward::{FunctionObjects, PythonBackward};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use std::any::Any;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};
use torchtpu_tensor::{GradRef, Tensor};

/// Call `visit` with the Python objects that only the history of `t` owns: hooks of the user, and the `ctx` of a
/// function. One Python object must be the only owner of `t`. Objects that another thread may use are not visited, so
/// the collector keeps them.
pub fn traverse(t: &Tensor, visit: &mut dyn FnMut(*mut PyObject) -> c_int) -> c_int {
    if !t.has_autograd() || t.handle_count() != 1 {
        return 0;
    }
    // The tensor owns one reference, and this call the other.
    match t.grad_ref() {
        Some(GradRef::Leaf(l)) if Arc::strong_count(&l) == 2 => {
            let Ok(hooks) = l.hooks.try_lock() else { return 0 };
            let is_idle = |id: u64| {
                hooks.before.iter().any(|h| h.0 == id && Arc::strong_count(&h.1) == 1)
                    || hooks.after.iter().any(|h| h.0 == id && Arc::strong_count(&h.1) == 1)
            };
            match visit_objects(&hooks.objects, is_idle, visit) {
                0 => visit_grad_objects(hooks.grad_object.iter(), visit),
                r => r,
            }
        }
        Some(GradRef::Node(n)) if Arc::strong_count(&n) == 2 => {
            if let Some(f) = n.user_function().and_then(|f| f.as_any()?.downcast_ref::<PythonBackward>()) {
                let FunctionObjects { run, release, context } = f.objects();
                for o in [run, release, context] {
                    let r = visit(o.as_ptr());
                    if r != 0 {
                        return r;
                    }
                }
            }
            let Some(Ok(extras)) = n.extras_if_any().map(Mutex::try_lock) else { return 0 };
            let is_idle = |id: u64| extras.before.iter().any(|h| h.0 == id && Arc::strong_count(&h.2) == 1);
            match visit_objects(&extras.objects, is_idle, visit) {
                0 => visit_grad_objects(extras.grad_objects.iter().map(|o| &o.1), visit),
                r => r,
            }
        }
        _ => 0,
    }
}

/// Visit the objects that were assigned to `.grad`.
fn visit_grad_objects<'a>(
    objects: impl Iterator<Item = &'a Arc<dyn Any + Send + Sync>>,
    visit: &mut dyn FnMut(*mut PyObject) -> c_int,
) -> c_int {
    for object in objects {
        if Arc::strong_count(object) == 1
            && let Some(kept) = object.downcast_ref::<Kept<Py<PyAny>>>()
        {
            let r = visit(kept.get().as_ptr());
            if r != 0 {
                return r;
            }
        }
    }
    0
}

/// Visit the objects of hooks that no backward pass is about to call.
fn visit_objects(
    objects: &[(u64, Arc<dyn Any + Send + Sync>)],
    is_idle: impl Fn(u64) -> bool,
    visit: &mut dyn FnMut(*mut PyObject) -> c_int,
) -> c_int {
    for (id, object) in objects {
        // The hook owns the other reference.
        if Arc::strong_count(object) == 2
            && is_idle(*id)
            && let Some(kept) = object.downcast_ref::<Kept<Py<PyAny>>>()
        {
            let r = visit(kept.get().as_ptr());
            if r != 0 {
                return r;
            }
        }
    }
    0
}

/// Drop the objects that [`traverse`] visits, after the collector has found them unreachable.
pub fn clear(t: &Tensor) {
    if !t.has_autograd() || t.handle_count() != 1 {
        return;
    }
    match t.grad_ref() {
        Some(GradRef::Leaf(l)) if Arc::strong_count(&l) == 2 => {
            let gone = std::mem::take(&mut *l.hooks.lock().unwrap_or_else(|e| e.into_inner()));
            drop(gone);
        }
        Some(GradRef::Node(n)) if Arc::strong_count(&n) == 2 => {
            t.set_grad_ref(None, 0);
            drop(n);
        }
        _ => {}
    }
}
