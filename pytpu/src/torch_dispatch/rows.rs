//! Calls of rows of the op table.

use super::parts::{history_of, tensors};
use super::{DISABLED, IS_OVERRIDDEN, answers, has_mode, results};
use crate::arguments::{Form, Overload, Parsed};
use crate::enter::Outcome;
use crate::tensor_type::to_python;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::atomic::Ordering::Relaxed;
use torchtpu_tensor::schema::Args;
use torchtpu_tensor::{Tensor, foreign, state};

/// The arguments of a call in the form for Python: its operands, positional arguments and keyword arguments.
type BoundCall<'py> = (Vec<Bound<'py, PyAny>>, Bound<'py, PyTuple>, Bound<'py, PyDict>);

/// Offer a call of a row. `None` if it is an ordinary call. `bind` gives its arguments.
#[cold]
#[inline(never)]
pub fn serve(
    o: &Overload,
    parsed: &Parsed,
    bind: impl FnOnce(Python<'_>) -> PyResult<BoundCall<'_>>,
) -> Outcome<Option<*mut PyObject>> {
    let args = Args(parsed.args());
    let operands = tensors(&args);
    let is_foreign = operands.iter().any(|t| foreign::is_foreign(t));
    if DISABLED.get() || !(is_foreign || has_mode() || IS_OVERRIDDEN.load(Relaxed)) {
        return Ok(None);
    }
    let name = o.row.schema.split('(').next().unwrap_or_default();
    let needs_grad = state::grad_enabled() && operands.iter().any(|t| t.requires_grad());
    Python::attach(|py| {
        let [rows, ..] = answers()?;
        let (_, positional, keywords) = bind(py)?;
        let in_place = o.form == Form::InPlace;
        let ask = |stage: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
            let y = rows.bind(py).call1((name, in_place, stage, &positional, &keywords))?;
            Ok((!y.is(py.NotImplemented())).then_some(y))
        };
        // The library writes results over tensors with history by `copy_`.
        let writes = in_place || name.split('.').next().is_some_and(|name| name.ends_with('_'));
        if is_foreign && !has_mode() && needs_grad && writes {
            return Ok(None);
        }
        if !is_foreign || has_mode() || !needs_grad || !parsed.out.is_null() {
            return Ok(ask("call")?.map(Bound::into_ptr));
        }
        // Autograd and the class see the parts of a composition.
        if let Some(y) = ask("composition")? {
            return Ok(Some(y.into_ptr()));
        }
        // The class gets a call by its name if backward needs its operands and results only, else the parts.
        let Some(history) = history_of(o.row, &args)? else { return Ok(None) };
        let Some(y) = state::no_grad(|| ask("operator"))? else { return Ok(None) };
        let plain = |t: &Tensor| if t.has_autograd() { t.shallow_alias() } else { Ok(t.clone()) };
        let y: Vec<Tensor> = results(&y)?.iter().map(plain).collect::<Result<_, _>>()?;
        if y.len() != history.results.len() {
            return Ok(None);
        }
        history.record(&y)?;
        let objects = y.into_iter().map(|t| to_python(py, t)).collect::<PyResult<Vec<_>>>()?;
        Ok(Some(match <[Bound<'_, PyAny>; 1]>::try_from(objects) {
            Ok([one]) => one.into_ptr(),
            Err(many) => PyTuple::new(py, many)?.into_ptr(),
        }))
    })
}
