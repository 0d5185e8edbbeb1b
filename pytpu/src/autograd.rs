//! The backward pass, gradient modes, hooks, and the base of `torch.autograd.Function`.

use crate::enter::{self, OrRaise, callback_error};
use crate::tensor_type::{self, extract, to_python};
use pyo3::exceptions::{PyAttributeError, PyRuntimeError, PyTypeError};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use smallvec::SmallVec;
use std::any::Any;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, Weak};
use torchtpu_autograd::Place;
use torchtpu_tensor::graph::{BackwardFn, Edge, GradList, Hook, Leaf, LeafHook, Node, NodeHooks, PostHook, PreHook};
use torchtpu_tensor::hooks::{check_result, next_id};
use torchtpu_tensor::op::Grads;
use torchtpu_tensor::saved::{self, Packed, SavedTensor, SavedTensorHooks};
use torchtpu_tensor::{Error, GradRef, Meta, Result, Tensor, state};

fn tensor_in(o: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    match extract(o) {
        Some(t) => Ok(t.clone()),
        None => Err(PyTypeError::new_err(format!("expected a Tensor, but got {}", o.get_type().name()?))),
    }
}

fn tensors_in(o: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    o.try_iter()?.map(|t| tensor_in(&t?)).collect()
}

fn optional_tensors_in(o: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Tensor>>> {
    o.try_iter()?.map(|t| t.and_then(|t| if t.is_none() { Ok(None) } else { tensor_in(&t).map(Some) })).collect()
}

fn optional_object<'py>(py: Python<'py>, t: Option<Tensor>) -> PyResult<Bound<'py, PyAny>> {
    t.map_or_else(|| Ok(py.None().into_bound(py)), |t| to_python(py, t))
}

/// A tensor, or a `GradientEdge`: a node and the number of an output.
fn place_in(o: &Bound<'_, PyAny>) -> PyResult<Place> {
    if let Some(t) = extract(o) {
        return Place::of(t).or_raise();
    }
    let Ok(node) = o.getattr("node") else {
        return Err(PyTypeError::new_err(format!(
            "expected a Tensor or a GradientEdge, but got {}",
            o.get_type().name()?
        )));
    };
    let node = node.cast::<PyNode>()?.get();
    let nr: u32 = o.getattr("output_nr")?.extract()?;
    match &node.0 {
        Edge::Leaf(l) => Ok(Place { edge: node.0.clone(), meta: *l.meta() }),
        Edge::Node(n, _) => match n.outputs().get(nr as usize) {
            Some(meta) => Ok(Place { edge: Edge::Node(n.clone(), nr), meta: *meta }),
            None => Err(PyRuntimeError::new_err(format!("{} has no output {nr}", n.name()))),
        },
        Edge::None => Err(PyRuntimeError::new_err("an edge without a node")),
    }
}

fn places_in(o: &Bound<'_, PyAny>) -> PyResult<Vec<Place>> {
    o.try_iter()?.map(|t| place_in(&t?)).collect()
}

/// Accumulates gradients into leaves.
#[pyfunction]
fn _backward(
    tensors: &Bound<'_, PyAny>,
    grads: &Bound<'_, PyAny>,
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let (y, g) = (places_in(tensors)?, optional_tensors_in(grads)?);
    let inputs = inputs.map(places_in).transpose()?;
    let run = || torchtpu_autograd::backward_at(&y, &g, retain_graph, create_graph, inputs.as_deref());
    // A graph of small tensors is quick, but its hooks and functions may run any code. They take the GIL themselves.
    enter::without_gil(run).or_raise()
}

/// Gradients of outputs with respect to inputs.
#[pyfunction]
fn _grad<'py>(
    py: Python<'py>,
    outputs: &Bound<'py, PyAny>,
    inputs: &Bound<'py, PyAny>,
    grads: &Bound<'py, PyAny>,
    retain_graph: Option<bool>,
    create_graph: bool,
    allow_unused: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let (y, x, g) = (places_in(outputs)?, places_in(inputs)?, optional_tensors_in(grads)?);
    let found = enter::without_gil(|| torchtpu_autograd::grad_at(&y, &x, &g, retain_graph, create_graph, allow_unused))
        .or_raise()?;
    let found: Vec<_> = found.into_iter().map(|t| optional_object(py, t)).collect::<PyResult<_>>()?;
    PyTuple::new(py, found)
}

thread_local! {
    /// The value of `is_grad_enabled` in inference mode, where nothing is recorded in any case.
    static GRAD_IN_INFERENCE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[pyfunction]
fn is_grad_enabled() -> bool {
    state::grad_enabled() || (state::is_inference() && GRAD_IN_INFERENCE.get())
}

/// Switch recording on or off, and return the previous setting. Inference mode records nothing in either case.
#[pyfunction]
fn _set_grad_enabled(on: bool) -> bool {
    if state::is_inference() { GRAD_IN_INFERENCE.replace(on) } else { state::with(|s| s.grad.replace(on)) }
}

/// Switch inference mode on or off, and recording to the opposite. Return both previous settings.
#[pyfunction]
fn _set_inference_mode(on: bool, grad: bool) -> (bool, bool) {
    let before = is_grad_enabled();
    let was_on = state::set_inference(on);
    GRAD_IN_INFERENCE.set(on && grad);
    state::with(|s| s.grad.set(!on && grad));
    (was_on, before)
}

#[pyfunction]
fn is_inference_mode_enabled() -> bool {
    state::is_inference()
}

// ---- nodes

/// A step of the backward graph, `x.grad_fn`. Its type is a subclass with the name of the step.
#[pyclass(frozen, subclass, name = "Node", module = "torch.autograd.graph")]
pub struct PyNode(Edge);

impl PyNode {
    fn node(&self) -> Option<&Arc<Node>> {
        if let Edge::Node(n, _) = &self.0 { Some(n) } else { None }
    }
    fn address(&self) -> usize {
        match &self.0 {
            Edge::Node(n, _) => Arc::as_ptr(n) as usize,
            Edge::Leaf(l) => l.address(),
            Edge::None => 0,
        }
    }
    fn class_name(&self) -> String {
        self.node().map_or_else(|| "AccumulateGrad".into(), |n| n.name())
    }
    fn python_function(&self) -> Option<&PythonBackward> {
        self.node()?.user_function()?.as_any()?.downcast_ref()
    }
    /// The hooks of the step, where they can be changed.
    fn with_hooks<R>(&self, f: impl FnOnce(&mut NodeHooks) -> R) -> PyResult<R> {
        match &self.0 {
            Edge::Node(n, _) => Ok(f(&mut n.extras().lock().unwrap_or_else(|e| e.into_inner()).hooks)),
            Edge::Leaf(l) => Ok(f(&mut l.leaf().or_raise()?.hooks.lock().unwrap_or_else(|e| e.into_inner()).node)),
            Edge::None => Err(PyRuntimeError::new_err("no step")),
        }
    }
    fn owner(&self) -> PyResult<At> {
        match &self.0 {
            Edge::Node(n, _) => Ok(At::Node(Arc::downgrade(n))),
            Edge::Leaf(l) => l.leaf().map(|l| At::Leaf(Arc::downgrade(&l))).or_raise(),
            Edge::None => Err(PyRuntimeError::new_err("no step")),
        }
    }
}

/// The text of an attribute's name.
fn saved_name(name: &Bound<'_, PyAny>) -> Option<String> {
    name.extract().ok()
}

/// Which operand or result an attribute such as `_saved_self` names.
fn saved_place(name: &str) -> Option<SavedPlace> {
    Some(match name.strip_prefix("_saved_")? {
        "self" | "input" | "mat1" | "condition" | "theta" => SavedPlace::Operand(0),
        "other" | "weight" | "mat2" | "exponent" | "index" | "indices" | "target" | "vec" => SavedPlace::Operand(1),
        "bias" | "src" | "source" => SavedPlace::Operand(2),
        "result" | "output" | "result0" | "grad_input" => SavedPlace::Result(0),
        "result1" | "mean" | "save_mean" => SavedPlace::Result(1),
        "result2" | "rstd" | "save_invstd" => SavedPlace::Result(2),
        _ => return None,
    })
}

/// What a node may keep.
#[derive(Clone, Copy)]
enum SavedPlace {
    Operand(usize),
    Result(u32),
}

impl PyNode {
    /// Return the tensor that the step has saved at a place: `None` if there is no such place, `Some(None)` if the
    /// place is empty.
    fn saved(&self, place: SavedPlace) -> Result<Option<Option<Tensor>>> {
        let Some(n) = self.node() else { return Ok(None) };
        match place {
            SavedPlace::Operand(i) if i < n.edges().len() => n.saved_operand(i).map(Some),
            SavedPlace::Result(nr) if (nr as usize) < n.outputs().len() => n.saved_result(nr).map(Some),
            _ => Ok(None),
        }
    }
}

#[pymethods]
impl PyNode {
    #[new]
    fn new(of: &PyNode) -> PyNode {
        PyNode(of.0.clone())
    }
    fn name(&self) -> String {
        self.node().map_or_else(|| "torch::autograd::AccumulateGrad".into(), |n| n.name())
    }
    fn __repr__(&self) -> String {
        let place = if self.python_function().is_some() { "torch.autograd.function." } else { "" };
        format!("<{place}{} object at {:#x}>", self.class_name(), self.address())
    }
    fn __hash__(&self) -> usize {
        self.address() >> 4
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyNode>().is_ok_and(|o| o.get().address() == self.address())
    }
    /// What `ctx` of a `torch.autograd.Function` holds can be read here.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match slf.get().python_function() {
            Some(f) => f.objects().context.bind(slf.py()).getattr(name.cast::<pyo3::types::PyString>()?),
            None if let Some(place) = saved_name(name).as_deref().and_then(saved_place)
                && let Some(found) = slf.get().saved(place).transpose() =>
            {
                optional_object(slf.py(), found.or_raise()?)
            }
            None => Err(PyAttributeError::new_err(format!(
                "'{}' object has no attribute '{}'",
                slf.get().class_name(),
                name.str()?
            ))),
        }
    }
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let edges = self.node().map_or(&[][..], |n| n.edges());
        let next = edges.iter().map(|e| {
            let nr = if let Edge::Node(_, nr) = e { *nr } else { 0 };
            let o = if e.is_some() { edge_object(py, e.clone())? } else { py.None().into_bound(py) };
            Ok((o, nr))
        });
        PyTuple::new(py, next.collect::<PyResult<Vec<_>>>()?)
    }
    #[getter]
    fn _sequence_nr(&self) -> u64 {
        self.node().map_or(u64::MAX, |n| n.seq())
    }
    /// The leaf into whose `grad` an `AccumulateGrad` adds.
    #[getter]
    fn variable<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.0 {
            Edge::Leaf(l) => to_python(py, l.tensor().clone()),
            _ => Err(PyAttributeError::new_err(format!("'{}' object has no attribute 'variable'", self.class_name()))),
        }
    }
    #[getter]
    fn requires_grad(&self) -> bool {
        true
    }
    /// A dictionary for whatever a user wants to attach.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let known = self.with_hooks(|h| h.metadata.clone())?;
        if let Some(d) = known.as_deref().and_then(|d| d.downcast_ref::<Kept<Py<PyDict>>>()) {
            return Ok(d.get().bind(py).clone());
        }
        let new = PyDict::new(py);
        let kept = Arc::new(Kept::new(new.clone().unbind()));
        let before = self.with_hooks(|h| h.metadata.replace(kept))?;
        drop(before);
        Ok(new)
    }
    /// Calls `fn(grad_outputs)` before the step runs; a tuple that it returns takes their place.
    fn register_prehook(&self, hook: Py<PyAny>) -> PyResult<HookOwner> {
        let (id, hook) = (next_id(), Kept::new(hook));
        let f: PreHook = Arc::new(move |g| call_node_hook(hook.get(), &[g], g.len()));
        self.with_hooks(|h| h.pre.push((id, f)))?;
        Ok(HookOwner { at: self.owner()?, id })
    }
    /// Calls `fn(grad_inputs, grad_outputs)` after the step has run; a tuple that it returns takes the place of the
    /// former.
    fn register_hook(&self, hook: Py<PyAny>) -> PyResult<HookOwner> {
        let (id, hook) = (next_id(), Kept::new(hook));
        let f: PostHook = Arc::new(move |found, g| call_node_hook(hook.get(), &[found, g], found.len()));
        self.with_hooks(|h| h.post.push((id, f)))?;
        Ok(HookOwner { at: self.owner()?, id })
    }
}

static NODE_CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// The object of a step, of a class with its name.
fn edge_object(py: Python<'_>, e: Edge) -> PyResult<Bound<'_, PyAny>> {
    let node = PyNode(e);
    let name = node.class_name();
    let classes = NODE_CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let class = match classes.get_item(&name)? {
        Some(c) => c,
        None => {
            let module = if node.python_function().is_some() { "torch.autograd.function" } else { "builtins" };
            let body = PyDict::new(py);
            body.set_item("__module__", module)?;
            body.set_item("__slots__", ())?;
            let class = py.get_type::<PyType>().call1((&name, (py.get_type::<PyNode>(),), body))?;
            classes.set_item(&name, &class)?;
            class
        }
    };
    class.call1((Bound::new(py, node)?,))
}

/// The object of a node.
pub fn node_object(py: Python<'_>, n: Arc<Node>) -> PyResult<Bound<'_, PyAny>> {
    edge_object(py, Edge::Node(n, 0))
}

/// The step that a tensor's gradient goes to, and the number of the output there.
#[pyfunction]
fn _gradient_edge<'py>(x: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, u32)> {
    let t = tensor_in(x)?;
    match t.history_edge().or_raise()? {
        Edge::None => Err(PyRuntimeError::new_err(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients",
        )),
        e => {
            let nr = if let Edge::Node(_, nr) = &e { *nr } else { 0 };
            Ok((edge_object(x.py(), e)?, nr))
        }
    }
}

/// Number of the backward pass that this thread is in, or -1.
#[pyfunction]
fn _current_graph_task_id() -> i64 {
    torchtpu_autograd::graph_task_id()
}

/// Whether the backward pass that this thread is in reaches a node.
#[pyfunction]
fn _will_engine_execute_node(node: &PyNode) -> PyResult<bool> {
    torchtpu_autograd::will_reach(&node.0).ok_or_else(|| {
        PyRuntimeError::new_err("_get_should_execute_nodes should only be called during the backward pass")
    })
}

// ---- hooks

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

/// Calls a hook of a node with tuples of gradients; it may give `expected` others.
fn call_node_hook(hook: &Py<PyAny>, given: &[&[Option<Tensor>]], expected: usize) -> Result<Option<GradList>> {
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
struct HookOwner {
    at: At,
    id: u64,
}
enum At {
    Node(Weak<Node>),
    Leaf(Weak<Leaf>),
}

#[pymethods]
impl HookOwner {
    /// Removes the hook.
    fn remove(&self) {
        let gone = match &self.at {
            At::Node(n) => n.upgrade().and_then(|n| {
                n.extras_if_any().and_then(|e| e.lock().unwrap_or_else(|e| e.into_inner()).remove(self.id))
            }),
            At::Leaf(l) => l.upgrade().and_then(|l| l.hooks.lock().unwrap_or_else(|e| e.into_inner()).remove(self.id)),
        };
        // Dropping the hook may run the user's code, which may take the same lock.
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

/// Calls `hook(grad)` when the gradient of `x` is known.
#[pyfunction]
fn _register_hook(x: &Bound<'_, PyAny>, hook: Py<PyAny>) -> PyResult<HookOwner> {
    let t = tensor_in(x)?;
    let (id, kept) = (next_id(), Arc::new(Kept::new(hook)));
    let hook = kept.clone();
    let f: Hook = Arc::new(move |g| call_hook(hook.get(), g));
    // SAFETY: a tensor object.
    unsafe { tensor_type::track(x.as_ptr()) };
    match t.history().or_raise()? {
        Some(GradRef::Node(n)) => {
            let mut extras = n.extras().lock().unwrap_or_else(|e| e.into_inner());
            extras.before.push((id, t.output_nr(), f));
            extras.objects.push((id, kept));
            drop(extras);
            Ok(HookOwner { at: At::Node(Arc::downgrade(&n)), id })
        }
        Some(GradRef::Leaf(l)) if l.requires_grad() => {
            let mut hooks = l.hooks.lock().unwrap_or_else(|e| e.into_inner());
            hooks.before.push((id, f));
            hooks.objects.push((id, kept));
            drop(hooks);
            Ok(HookOwner { at: At::Leaf(Arc::downgrade(&l)), id })
        }
        _ => Err(PyRuntimeError::new_err("cannot register a hook on a tensor that doesn't require gradient")),
    }
}

/// Calls `hook(x)` when the gradient of the leaf `x` has been accumulated.
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
    // SAFETY: a tensor object.
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
    Ok(HookOwner { at: At::Leaf(Arc::downgrade(&leaf)), id })
}

/// Keeps the object that was assigned to `.grad` of `x`, with its class and its attributes. Null lets an earlier one
/// go.
///
/// # Safety
/// `object` is an object or null; the GIL is held.
pub unsafe fn keep_grad_object(x: &Tensor, object: *mut PyObject) {
    // SAFETY: by the contract.
    let object =
        Python::attach(|py| unsafe { Bound::<PyAny>::from_borrowed_ptr_or_opt(py, object).map(Bound::unbind) });
    let kept = object.map(|o| Arc::new(Kept::new(o)) as Arc<dyn Any + Send + Sync>);
    // The old object is dropped when no lock is held: it may run the user's code.
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

// ---- garbage collection

/// Call `visit` with the Python objects that only the history of `t` owns: the user's hooks, and the `ctx` of a
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

/// Visits the objects that were assigned to `.grad`.
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

/// Visits the objects of hooks that no backward pass is about to call.
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

// ---- torch.autograd.Function

/// Objects that library code keeps: dropped at once, not when the interpreter next finds the time.
struct Kept<T>(Option<T>);

impl<T> Kept<T> {
    fn new(value: T) -> Kept<T> {
        Kept(Some(value))
    }
    fn get(&self) -> &T {
        self.0.as_ref().expect("taken only when dropped")
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        Python::try_attach(|_| drop(value));
    }
}

struct FunctionObjects {
    /// Gradients of the outputs in, a tuple of gradients of the inputs out.
    run: Py<PyAny>,
    /// Called when the saved tensors may be freed.
    release: Py<PyAny>,
    /// The user's `ctx`.
    context: Py<PyAny>,
}

/// A backward written in Python.
struct PythonBackward {
    name: String,
    objects: Kept<FunctionObjects>,
    inputs: usize,
    /// Which outputs share the elements of an input.
    views: Vec<bool>,
}

impl PythonBackward {
    fn objects(&self) -> &FunctionObjects {
        self.objects.get()
    }
}

impl BackwardFn for PythonBackward {
    fn name(&self) -> String {
        self.name.clone()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        Python::attach(|py| {
            let g: Vec<_> = g.iter().map(|g| optional_object(py, g.clone())).collect::<PyResult<_>>()?;
            let r = self.objects().run.bind(py).call1(PyTuple::new(py, g)?)?;
            let found = optional_tensors_in(&r)?;
            if found.len() != self.inputs {
                return Err(PyRuntimeError::new_err(format!(
                    "function {} returned an incorrect number of gradients (expected {}, got {})",
                    self.name,
                    self.inputs,
                    found.len()
                )));
            }
            Ok(found.into_iter().collect())
        })
        .map_err(callback_error)
    }
    fn is_view_output(&self, nr: u32) -> bool {
        self.views.get(nr as usize).copied().unwrap_or(false)
    }
    fn release(&self) {
        Python::attach(|py| {
            if let Err(e) = self.objects().release.bind(py).call0() {
                e.write_unraisable(py, None);
            }
        });
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// Record a Python backward for `outputs`, as a function of `inputs`. Outputs whose places are not in `differentiable`
/// are not recorded. Those in `dirty` are inputs that were written, and those in `views` share the elements of an
/// input.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called in one place, from Python")]
fn _attach_function(
    name: String,
    inputs: &Bound<'_, PyList>,
    outputs: &Bound<'_, PyList>,
    differentiable: Vec<bool>,
    dirty: Vec<bool>,
    views: Vec<bool>,
    run: Py<PyAny>,
    release: Py<PyAny>,
    context: Py<PyAny>,
) -> PyResult<WeakNode> {
    let x = tensors_in(inputs)?;
    let y = tensors_in(outputs)?;
    let edges: SmallVec<[Edge; 2]> = x.iter().map(Tensor::history_edge).collect::<Result<_>>().or_raise()?;
    let metas: SmallVec<[Meta; 1]> = y.iter().map(|t| *t.meta()).collect();
    let node = Node::function(
        Box::new(PythonBackward {
            name,
            objects: Kept::new(FunctionObjects { run, release, context }),
            inputs: x.len(),
            views,
        }),
        edges,
        metas,
    );
    for (nr, t) in y.iter().enumerate() {
        if differentiable[nr] {
            // `ctx` may refer to its own outputs.
            // SAFETY: `tensors_in` found tensor objects in the list.
            unsafe { tensor_type::track(outputs.get_item(nr)?.as_ptr()) };
        }
        if dirty[nr] {
            if t.is_view() && y.len() > 1 {
                return Err(PyRuntimeError::new_err(
                    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot \
                    return more than one Tensor. This is not supported by the current autograd engine. You should \
                    either make sure the input is not a view (using .clone() for example) or make your Function only \
                    return one Tensor (potentially splitting it into two Functions: one doing the inplace that returns \
                    a single Tensor and a second one that does the other operations). You can ask on the forum \
                    https://discuss.pytorch.org/ if you need help to do this change.",
                ));
            }
            if differentiable[nr] {
                t.adopt_history(&node, nr as u32).or_raise()?;
            }
        } else if differentiable[nr] {
            t.set_grad_ref(Some(GradRef::Node(node.clone())), nr as u32);
        }
    }
    Ok(WeakNode(Arc::downgrade(&node)))
}

/// A node that is not kept alive: its own backward refers to it.
#[pyclass(frozen)]
struct WeakNode(Weak<Node>);

#[pyfunction]
fn _node_of<'py>(py: Python<'py>, weak: &WeakNode) -> PyResult<Option<Bound<'py, PyAny>>> {
    weak.0.upgrade().map(|n| node_object(py, n)).transpose()
}

/// A tensor that `ctx` keeps, through hooks on saved tensors if there are any.
#[pyclass(frozen)]
struct SavedByFunction {
    saved: SavedTensor,
    output: Option<u32>,
}

/// Keeps a tensor for backward; `output` is its number when it is an output of the node that keeps it.
#[pyfunction]
fn _save(x: &Bound<'_, PyAny>, output: Option<u32>) -> PyResult<SavedByFunction> {
    let t = tensor_in(x)?;
    let saved = if output.is_some() { SavedTensor::output(&t) } else { SavedTensor::new(t) };
    Ok(SavedByFunction { saved: saved.or_raise()?, output })
}

/// The tensor that was kept; an output gets the history of the node.
#[pyfunction]
fn _unsave<'py>(py: Python<'py>, kept: &SavedByFunction, node: &WeakNode) -> PyResult<Bound<'py, PyAny>> {
    let t = match (kept.output, node.0.upgrade()) {
        (Some(nr), Some(node)) => kept.saved.get_output(&node, nr),
        _ => kept.saved.get(),
    };
    to_python(py, t.or_raise()?)
}

// ---- hooks on saved tensors

/// The user's two functions.
struct PythonHooks(Kept<(Py<PyAny>, Py<PyAny>)>);

impl SavedTensorHooks for PythonHooks {
    fn pack(&self, x: &Tensor) -> Result<Packed> {
        Python::attach(|py| {
            let kept = self.0.get().0.bind(py).call1((to_python(py, x.clone())?,))?;
            Ok(Box::new(Kept::new(kept.unbind())) as Packed)
        })
        .map_err(callback_error)
    }
    fn unpack(&self, kept: &Packed) -> Result<Tensor> {
        Python::attach(|py| {
            let kept = kept.downcast_ref::<Kept<Py<PyAny>>>().expect("made by pack").get();
            let t = self.0.get().1.bind(py).call1((kept,))?;
            match extract(&t) {
                Some(t) => Ok(t.clone()),
                None => Err(PyTypeError::new_err(format!(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {}",
                    t.get_type().name()?
                ))),
            }
        })
        .map_err(callback_error)
    }
}

#[pyfunction]
fn _push_saved_tensors_hooks(pack: Py<PyAny>, unpack: Py<PyAny>) -> PyResult<()> {
    saved::push_hooks(Arc::new(PythonHooks(Kept::new((pack, unpack))))).or_raise()
}

#[pyfunction]
fn _pop_saved_tensors_hooks() {
    saved::pop_hooks();
}

/// Forbids hooks, with a text that says why, or allows them; gives what held before.
#[pyfunction]
fn _disable_saved_tensors_hooks(why: Option<String>) -> PyResult<Option<String>> {
    saved::disable_hooks(why).or_raise()
}

// ---- anomaly mode

/// Switches anomaly mode and gives what held before: whether it was on, and whether it looked for NaN.
#[pyfunction]
fn _set_anomaly_enabled(detect: bool, check_nan: bool) -> (bool, bool) {
    saved::set_anomaly(detect, check_nan)
}

#[pyfunction]
fn is_anomaly_enabled() -> bool {
    saved::anomaly().0
}

#[pyfunction]
fn is_anomaly_check_nan_enabled() -> bool {
    saved::anomaly().1
}

/// The interpreter's stack, innermost call last.
fn python_stack() -> String {
    let text = Python::try_attach(|py| -> PyResult<String> {
        let lines = py.import("traceback")?.getattr("format_stack")?.call0()?;
        pyo3::types::PyString::new(py, "").call_method1("join", (lines,))?.extract()
    });
    match text {
        Some(Ok(text)) => text,
        _ => "(no interpreter)\n".into(),
    }
}

/// Allow as many nested backward passes as Python allows nested calls, and raise its `RecursionError` beyond that.
fn depth_limit() -> (usize, fn() -> Error) {
    let limit = Python::attach(|py| py.import("sys")?.getattr("getrecursionlimit")?.call0()?.extract::<usize>());
    (limit.unwrap_or(1000), || {
        let text = "maximum recursion depth exceeded in nested backward passes";
        callback_error(pyo3::exceptions::PyRecursionError::new_err(text))
    })
}

fn warn(text: &str) {
    Python::attach(|py| {
        let warned = py.import("warnings").and_then(|w| w.getattr("warn")).and_then(|w| w.call1((text,)));
        if let Err(e) = warned {
            e.write_unraisable(py, None); // warnings as errors: the error of the pass itself is to be seen
        }
    });
}

/// Counts a write to a tensor, as `ctx.mark_dirty` asks.
#[pyfunction]
fn _bump_version(x: &Bound<'_, PyAny>) -> PyResult<()> {
    tensor_in(x)?.bump_version();
    Ok(())
}

/// Zeros like an output of a node; for a gradient that never came.
#[pyfunction]
fn _zeros_for<'py>(py: Python<'py>, node: &PyNode, nr: usize) -> PyResult<Bound<'py, PyAny>> {
    let meta = node.node().and_then(|n| n.outputs().get(nr).copied());
    let meta = meta.ok_or_else(|| Error::runtime("no such output")).or_raise()?;
    to_python(py, Tensor::zeros_like_meta(&meta).or_raise()?)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyNode>()?;
    m.add_class::<HookOwner>()?;
    m.add_function(wrap_pyfunction!(_backward, m)?)?;
    m.add_function(wrap_pyfunction!(_grad, m)?)?;
    m.add_function(wrap_pyfunction!(is_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_set_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_set_inference_mode, m)?)?;
    m.add_function(wrap_pyfunction!(is_inference_mode_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_register_hook, m)?)?;
    m.add_function(wrap_pyfunction!(_register_post_accumulate_grad_hook, m)?)?;
    m.add_function(wrap_pyfunction!(_attach_function, m)?)?;
    m.add_class::<WeakNode>()?;
    m.add_function(wrap_pyfunction!(_node_of, m)?)?;
    m.add_class::<SavedByFunction>()?;
    m.add_function(wrap_pyfunction!(_save, m)?)?;
    m.add_function(wrap_pyfunction!(_unsave, m)?)?;
    m.add_function(wrap_pyfunction!(_push_saved_tensors_hooks, m)?)?;
    m.add_function(wrap_pyfunction!(_pop_saved_tensors_hooks, m)?)?;
    m.add_function(wrap_pyfunction!(_disable_saved_tensors_hooks, m)?)?;
    m.add_function(wrap_pyfunction!(_set_anomaly_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(is_anomaly_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(is_anomaly_check_nan_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_gradient_edge, m)?)?;
    m.add_function(wrap_pyfunction!(_current_graph_task_id, m)?)?;
    m.add_function(wrap_pyfunction!(_will_engine_execute_node, m)?)?;
    saved::set_traceback(python_stack);
    torchtpu_autograd::set_depth_limit(depth_limit);
    torchtpu_autograd::anomaly::set_report(warn);
    m.add_function(wrap_pyfunction!(_bump_version, m)?)?;
    m.add_function(wrap_pyfunction!(_zeros_for, m)?)?;
    Ok(())
}
