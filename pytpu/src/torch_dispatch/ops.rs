//! Calls of ops that Rust calls by itself, as calls of aten operators.

use super::parts::{PROBE, called, note_part};
use super::values::inner;
use super::{DISABLED, answers, has_mode, library_error, results};
use crate::dtype;
use crate::enter::{OrRaise, Outcome};
use crate::objects::number_object;
use crate::tensor_type::to_python;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use torchtpu_tensor::foreign::{self, Interceptor};
use torchtpu_tensor::op::Outs;
use torchtpu_tensor::ops::Prim;
use torchtpu_tensor::ops::aten::{self, Value};
use torchtpu_tensor::{Tensor, dispatch};

struct Binding;

impl Interceptor for Binding {
    fn wants(&self, x: &[&Tensor]) -> bool {
        has_mode() || x.iter().any(|t| foreign::is_foreign(t))
    }

    fn call(&self, op: &Prim, x: &[&Tensor]) -> torchtpu_tensor::Result<Option<Outs>> {
        if let Some(parts) = PROBE.take() {
            return note_part(parts, op, x).map(Some);
        }
        if DISABLED.get() {
            let x: Vec<Tensor> = x.iter().map(|t| inner(t)).collect::<Result<_, _>>()?;
            return dispatch::call_n(op.clone(), &x.iter().collect::<Vec<_>>()).map(Some);
        }
        let call = aten::call(op, x);
        if call.is_none() && op.is_fused() && !aten::is_whole(op) && !foreign::is_own_part(op) {
            return Ok(None);
        }
        Python::attach(|py| answer(py, op, x, call).map(Some)).map_err(library_error)
    }

    fn ones_like(&self, x: &Tensor) -> torchtpu_tensor::Result<Tensor> {
        Python::attach(|py| {
            let [_, ops, _] = answers()?;
            let args = PyTuple::new(py, [to_python(py, x.clone())?])?;
            let kwargs = PyDict::new(py);
            kwargs.set_item("pin_memory", false)?;
            kwargs.set_item("memory_format", py.import("pytpu._C")?.getattr("preserve_format")?)?;
            let y = ops.bind(py).call1(("ones_like.default", args, kwargs))?;
            results(&y)?.pop().ok_or_else(|| PyTypeError::new_err("ones_like returned no tensor").into())
        })
        .map_err(library_error)
    }
}

fn answer(py: Python<'_>, op: &Prim, x: &[&Tensor], call: Option<aten::Call>) -> Outcome<Outs> {
    let [_, ops, _] = answers()?;
    let operands = x.iter().map(|t| to_python(py, (*t).clone())).collect::<PyResult<Vec<_>>>()?;
    let kwargs = PyDict::new(py);
    let (name, args) = match call {
        Some(call) => {
            let args = call.args.iter().map(|v| object(py, v, &operands)).collect::<PyResult<Vec<_>>>()?;
            for (k, v) in &call.keywords {
                kwargs.set_item(k, object(py, v, &operands)?)?;
            }
            (PyString::new(py, &call.name).into_any(), args)
        }
        None => (Bound::new(py, PyPrim(op.clone()))?.into_any(), operands),
    };
    let y = ops.bind(py).call1((name, PyTuple::new(py, args)?, kwargs))?;
    let y = results(&y)?;
    if y.len() < op.outs() {
        return Err(PyRuntimeError::new_err(format!(
            "{}: {} results of __torch_dispatch__ where {} were expected",
            op.name(),
            y.len(),
            op.outs()
        ))
        .into());
    }
    Ok(y.into_iter().take(op.outs()).collect())
}

fn object<'py>(py: Python<'py>, v: &Value, operands: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    Ok(match v {
        Value::None => py.None().into_bound(py),
        Value::Operand(i) => operands[*i].clone(),
        Value::Rest(from) => PyList::new(py, &operands[*from..])?.into_any(),
        // SAFETY: a new reference.
        Value::Number(s) => unsafe { Bound::from_owned_ptr_or_err(py, number_object(*s))? },
        Value::Ints(v) => PyList::new(py, v)?.into_any(),
        Value::Bools(v) => PyList::new(py, v)?.into_any(),
        Value::DType(d) => dtype::object(py, *d).into_any(),
        Value::Text(t) => t.into_pyobject(py)?.into_any(),
    })
}

/// An op of this library that no aten operator computes, for those who must answer its call.
#[pyclass(name = "_Prim", module = "pytpu._C", frozen)]
struct PyPrim(Prim);

#[pymethods]
impl PyPrim {
    /// The name.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }
    /// Compute the results.
    #[pyo3(signature = (*operands))]
    fn __call__<'py>(&self, operands: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = operands.py();
        let x = results(operands)?;
        let x: Vec<&Tensor> = x.iter().collect();
        let y = called(&self.0, &x).or_raise()?;
        let y = y.into_iter().map(|t| to_python(py, t)).collect::<PyResult<Vec<_>>>()?;
        Ok(match <[Bound<'py, PyAny>; 1]>::try_from(y) {
            Ok([one]) => one,
            Err(many) => PyTuple::new(py, many)?.into_any(),
        })
    }
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    foreign::install(&Binding);
    m.add_class::<PyPrim>()
}
