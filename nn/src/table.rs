//! Public functions that the op table reaches by name only.

use std::collections::HashMap;
use std::sync::OnceLock;
use torchtpu_tensor::ops::rows;
use torchtpu_tensor::schema::{Arg, Args, Ret, Row};
use torchtpu_tensor::{Error, Result, Tensor};

static ROWS: OnceLock<HashMap<&'static str, &'static Row>> = OnceLock::new();

/// Calls the op of that name (with its overload, where it has one) with all arguments of its schema.
pub(crate) fn call(name: &str, args: &[Arg<'_>]) -> Result<Tensor> {
    let rows = ROWS.get_or_init(|| rows().map(|r| (r.schema.split('(').next().unwrap_or_default(), r)).collect());
    let row = rows.get(name).ok_or_else(|| Error::not_implemented(format!("there is no op named {name}")))?;
    match (row.call)(&Args(args))? {
        Ret::Tensor(y) => Ok(y),
        other => Err(Error::runtime(format!("{name} gave {other:?} where a tensor was expected"))),
    }
}
