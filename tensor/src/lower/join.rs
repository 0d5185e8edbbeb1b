//! The kernel that joins many operands.

use crate::Meta;
use crate::lower::fields::fields;
use crate::lower::kernel_call::{Array, KernelCall, misfit};
use crate::op::{Func, Value, Values};
use torchtpu_kernels::{View, ViewMut};

/// Joins `count` operands of `rows` rows side by side, row after row.
#[derive(Debug)]
pub(crate) struct Join {
    rows: usize,
    count: usize,
}

fields! {
    Join { rows, count };
}

impl KernelCall for Join {
    fn name() -> &'static str {
        "join"
    }
    fn arity(&self) -> (usize, usize) {
        (self.count, 1)
    }
    fn compute(&self, _: &[View<'_>], _: &mut [ViewMut<'_>]) -> Result<(), String> {
        Err(misfit(self))
    }
    fn copy(&self, x: &[Array<&[u8]>], y: &mut [Array<&mut [u8]>]) -> Option<Result<(), String>> {
        Some(join(self.rows, x, y.first_mut()?))
    }
}

/// The largest number of operands that the compiler joins. XLA:CPU compiles a concatenation of 1,000 operands for half
/// a minute.
const MANY: usize = 64;

/// Number of computed operands that the compiler joins before the call. XLA:CPU computes up to eight operands of a
/// concatenation in its loop, and compiles a kernel for each further one: 300 sums of four elements took 11 s, and 2.5
/// s in groups.
const JOINED: usize = 8;

/// A function that joins the rows of a few operands.
pub(crate) type JoinFew<'a> = dyn Fn(&mut Func, &[Value]) -> Value + 'a;

/// Lower `cat` or `stack` of many operands to a call. The operands have the same leading sizes, whose product is
/// `rows`. Return `None` if the compiler joins them.
pub(crate) fn lower_join(f: &mut Func, x: &[Value], rows: usize, y: &[Meta], few: Option<&JoinFew>) -> Option<Values> {
    if x.len() <= MANY || !f.profile().calls_kernels {
        return None;
    }
    let Some(few) = few else {
        return Some(Join { rows, count: x.len() }.call_kernel(f, x, y));
    };
    let mut parts = Vec::new();
    for group in x.chunks(JOINED) {
        if group.iter().any(Value::is_argument) {
            parts.extend_from_slice(group);
        } else {
            parts.push(few(f, group));
        }
    }
    Some(Join { rows, count: parts.len() }.call_kernel(f, &parts, y))
}

/// Write `y` row by row, each made of a row of each operand.
fn join(rows: usize, x: &[Array<&[u8]>], y: &mut Array<&mut [u8]>) -> Result<(), String> {
    let total: usize = x.iter().map(|a| a.bytes.len()).sum();
    if total != y.bytes.len() || x.iter().any(|a| a.bytes.len() != a.bytes.len().checked_div(rows).unwrap_or(0) * rows)
    {
        return Err(format!("{} operands of {total} bytes for a result of {} in {rows} rows", x.len(), y.bytes.len()));
    }
    let mut rest = &mut *y.bytes;
    for row in 0..rows {
        for a in x {
            let n = a.bytes.len() / rows;
            let (to, after) = std::mem::take(&mut rest).split_at_mut(n);
            to.copy_from_slice(&a.bytes[row * n..][..n]);
            rest = after;
        }
    }
    Ok(())
}
