//! Hooks on tensors, on leaves, and on nodes.

use super::kept::Kept;
use super::tensors::{optional_object, optional_tensors_in, tensor_in};
use crate::enter::{OrRaise, callback_error};
use crate::tensor_type::{self, extract, to_python};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::any::Any;
use std::sync::{Arc, Weak};
use torchtpu_tensor::graph::{GradList, Hook, Leaf, LeafHook, Node};
use torchtpu_tensor::hooks::{check_result, next_id, watch_leaves};
use torchtpu_tensor::{GradRef, Result, Tensor};

fn call_hook(hook: &Py<PyAny>, g: &Tensor) -> Result<Option<Tensor>> {
    Python::attach(|py| {
        let r = hook.bind(py).call1((to_python(py, g.clone())?,))?;
        if r.is_none() {
            return Ok(None);
        }
        match extract(&r) {
            Some(t) => {
                check_result(&hook_name(py, hook), g, t).or_raise()?;
                Ok(Some(t.clone()))
            }
            None => {
                Err(PyTypeError::new_err(format!("expected Variable, but hook returned '{}'", r.get_type().name()?)))
            }
        }
    })
    .map_err(callback_error)
}

fn hook_name(py: Python<'_>, hook: &Py<PyAny>) -> String {
    hook.bind(py).getattr("__name__").map_or_else(|_| "<unknown>".into(), |n| n.to_string())
}

/// Call a hook of a node with tuples of gradients. It may return a tuple of `expected` gradients that replaces the
/// first.
pub(super) fn call_node_hook(
    hook: &Py<PyAny>,
    given: &[&[Option<Tensor>]],
    expected: usize,
) -> Result<Option<GradList>> {
    Python::attach(|py| {
        let lists = given
            .iter()
            .map(|g| PyTuple::new(py, g.iter().map(|g| optional_object(py, g.clone())).collect::<PyResult<Vec<_>>>()?))
            .collect::<PyResult<Vec<_>>>()?;
        let r = hook.bind(py).call1(PyTuple::new(py, lists)?)?;
        if r.is_none() {
            return Ok(None);
        }
        // A single gradient need not be wrapped.
        let found = if expected == 1 && extract(&r).is_some() {
            vec![Some(tensor_in(&r)?)]
        } else if r.is_instance_of::<PyTuple>() || r.is_instance_of::<PyList>() {
            optional_tensors_in(&r)?
        } else {
            return Err(PyTypeError::new_err(format!("expected tuple, but hook returned '{}'", r.get_type().name()?)));
        };
        if found.len() != expected {
            return Err(PyRuntimeError::new_err(format!(
                "hook '{}' has returned an incorrect number of values (got {}, but expected {expected})",
                hook_name(py, hook),
                found.len()
            )));
        }
        for (before, after) in given[0].iter().zip(&found) {
            match (before, after) {
                (Some(before), Some(after)) => check_result(&hook_name(py, hook), before, after).or_raise()?,
                (None, Some(_)) => {
                    return Err(PyRuntimeError::new_err("can't replace a None gradient with a non-None value"));
                }
                _ => {}
            }
        }
        Ok(Some(found))
    })
    .map_err(callback_error)
}

/// Removes a hook of a leaf or a node. It holds a weak reference, because the hook may own this object.
#[pyclass(frozen)]
pub(super) struct HookOwner {
    pub(super) owner: Owner,
    pub(super) id: u64,
}

pub(super) enum Owner {
    Node(Weak<Node>),
    Leaf(Weak<Leaf>),
}

#[pymethods]
impl HookOwner {
    /// Remove the hook.
    fn remove(&self) {
        let gone = match &self.owner {
            Owner::Node(n) => n.upgrade().and_then(|n| {
                n.extras_if_any().and_then(|e| e.lock().unwrap_or_else(|e| e.into_inner()).remove(self.id))
            }),
            Owner::Leaf(l) => {
                l.upgrade().and_then(|l| l.hooks.lock().unwrap_or_else(|e| e.into_inner()).remove(self.id))
            }
        };
        // Dropping the hook may run Python code, which may take the same lock.
        drop(gone);
    }
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }
    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, PyTuple>) {
        self.remove();
    }
}

/// Call `hook(grad)` when the gradient of `x` is known.
#[pyfunction]
fn _register_hook(x: &Bound<'_, PyAny>, hook: Py<PyAny>) -> PyResult<HookOwner> {
    let t = tensor_in(x)?;
    let (id, kept) = (next_id(), Arc::new(Kept::new(hook)));
    let hook = kept.clone();
    let f: Hook = Arc::new(move |g| call_hook(hook.get(), g));
    // SAFETY: `tensor_in` found a tensor in `x`.
    unsafe { tensor_type::track(x.as_ptr()) };
    match t.history().or_raise()? {
        Some(GradRef::Node(n)) => {
            let mut extras = n.extras().lock().unwrap_or_else(|e| e.into_inner());
            extras.before.push((id, t.output_nr(), f));
            extras.objects.push((id, kept));
            drop(extras);
            Ok(HookOwner { owner: Owner::Node(Arc::downgrade(&n)), id })
        }
        Some(GradRef::Leaf(l)) if l.requires_grad() => {
            let mut hooks = l.hooks.lock().unwrap_or_else(|e| e.into_inner());
            hooks.before.push((id, f));
            hooks.objects.push((id, kept));
            drop(hooks);
            Ok(HookOwner { owner: Owner::Leaf(Arc::downgrade(&l)), id })
        }
        _ => Err(PyRuntimeError::new_err("cannot register a hook on a tensor that doesn't require gradient")),
    }
}

/// Call `hook(x)` when the gradient of the leaf `x` has been accumulated.
#[pyfunction]
fn _register_post_accumulate_grad_hook(x: &Bound<'_, PyAny>, hook: Py<PyAny>) -> PyResult<HookOwner> {
    let t = tensor_in(x)?;
    let leaf = match t.history().or_raise()? {
        Some(GradRef::Leaf(l)) if l.requires_grad() => l,
        Some(GradRef::Node(_)) => {
            return Err(PyRuntimeError::new_err("post accumulate grad hooks cannot be registered on non-leaf tensors"));
        }
        _ => return Err(PyRuntimeError::new_err("cannot register a hook on a tensor that doesn't require gradient")),
    };
    // The hook must not keep its own tensor alive.
    let weak = Kept::new(x.py().import("weakref")?.getattr("ref")?.call1((x,))?.unbind());
    let kept = Arc::new(Kept::new(hook));
    let hook = kept.clone();
    // SAFETY: `tensor_in` found a tensor in `x`.
    unsafe { tensor_type::track(x.as_ptr()) };
    let f: LeafHook = Arc::new(move |_| {
        Python::attach(|py| {
            let x = weak.get().bind(py).call0()?;
            if !x.is_none() {
                hook.get().bind(py).call1((x,))?;
            }
            Ok(())
        })
        .map_err(callback_error)
    });
    let id = next_id();
    let mut hooks = leaf.hooks.lock().unwrap_or_else(|e| e.into_inner());
    hooks.after.push((id, f));
    hooks.objects.push((id, kept));
    drop(hooks);
    watch_leaves();
    Ok(HookOwner { owner: Owner::Leaf(Arc::downgrade(&leaf)), id })
}

/// Keep the object that was assigned to `.grad` of `x`, with its class and its attributes. Null drops an earlier
/// object.
///
/// # Safety
/// `object` is an object or null; the GIL is held.
pub unsafe fn keep_grad_object(x: &Tensor, object: *mut PyObject) {
    // SAFETY: `object` is an object or null, and the GIL is held.
    let object =
        Python::attach(|py| unsafe { Bound::<PyAny>::from_borrowed_ptr_or_opt(py, object).map(Bound::unbind) });
    let kept = object.map(|o| Arc::new(Kept::new(o)) as Arc<dyn Any + Send + Sync>);
    // Drop the old object while no lock is held: it may run Python code.
    let old = match x.grad_ref() {
        Some(GradRef::Leaf(l)) => {
            let mut hooks = l.hooks.lock().unwrap_or_else(|e| e.into_inner());
            std::mem::replace(&mut hooks.grad_object, kept)
        }
        Some(GradRef::Node(n)) if kept.is_some() || n.extras_if_any().is_some() => {
            let mut extras = n.extras().lock().unwrap_or_else(|e| e.into_inner());
            let nr = x.output_nr();
            let at = extras.grad_objects.iter().position(|o| o.0 == nr);
            let old = at.map(|i| extras.grad_objects.swap_remove(i).1);
            extras.grad_objects.extend(kept.map(|o| (nr, o)));
            old
        }
        _ => None,
    };
    drop(old);
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<HookOwner>()?;
    m.add_function(wrap_pyfunction!(_register_hook, m)?)?;
    m.add_function(wrap_pyfunction!(_register_post_accumulate_grad_hook, m)?)?;
    Ok(())
}
