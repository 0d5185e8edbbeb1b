//! Rows of a table by index.

use crate::op::{Fused, KernelFn, Outs, Prim, Saves, VjpFn, same_device};
use crate::ops::pointwise::{kernel_error, select, select_scalar};
use crate::schema::{Row, Sample, Scope, Tier, index, n, t};
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;

/// `y[i.., :] = w[idx[i..], :]`.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | w | `[v, *row]` | any |
/// | idx | any | `int64` or `int32` |
/// | y | `[*idx, *row]` | as w |
///
/// An index outside `0..v` is an error. The row `padding` gets no gradient. Saves the indices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Embedding {
    /// Row without gradient.
    pub padding: Option<usize>,
}

/// `cond`, of the shape of the indices, spread over rows of `rank` dimensions.
fn over_rows(cond: &Tensor, rank: usize) -> Result<Tensor> {
    let dims: Vec<usize> = cond.dims().iter().copied().chain(std::iter::repeat_n(1, rank)).collect();
    cond.reshape_dims(Dims::try_new(&dims)?)
}

impl Fused for Embedding {
    const NAME: &'static str = "embedding";
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        torchtpu_kernels::embedding::index_select_rows(&x[0].view(), &x[1].view(), &mut y[0].view_mut())
            .map_err(kernel_error)
    });
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let (w, idx) = (s.meta(0), s.x(1));
        if !s.needs(0) {
            return Ok(smallvec![None, None]);
        }
        let mut g = g.clone();
        if let Some(p) = o.padding {
            let is_padding = over_rows(&idx.eq_scalar(p as i64)?, w.dims.len() - 1)?;
            g = select_scalar(&is_padding, 0.0, &g)?;
        }
        let mut rows = w.dims;
        rows[0] = idx.numel();
        let flat = idx.reshape_dims(Dims::new(&[idx.numel()]))?;
        let zeros = Tensor::zeros_like_meta(w)?;
        Ok(smallvec![Some(super::indexing::index_add(&zeros, 0, &flat, &g.reshape_dims(rows)?)?), None])
    });
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (w, idx) = (x[0], x[1]);
        if w.dims().is_empty() {
            return Err(Error::runtime("'weight' must be 2-D"));
        }
        if !matches!(idx.dtype(), DType::I64 | DType::I32) {
            return Err(Error::runtime(format!(
                "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.{}Tensor instead (while checking arguments for embedding)",
                idx.dtype().scalar_type()
            )));
        }
        let dims: Vec<usize> = idx.dims().iter().chain(&w.dims()[1..]).copied().collect();
        Ok(Meta { dims: Dims::try_new(&dims)?, dtype: w.dtype(), device: same_device(x)? })
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (w, idx) = (x[0], x[1]);
        let dims: Dims = idx.dims().iter().chain(&w.dims()[1..]).copied().collect();
        let flat = idx.reshape_dims(Dims::new(&[idx.numel()]))?;
        let y = super::indexing::index_select(w, 0, &flat)?.reshape_dims(dims)?;
        let Some(p) = self.padding else { return Ok(smallvec![y]) };
        if !(crate::state::grad_enabled() && y.requires_grad()) {
            return Ok(smallvec![y]);
        }
        let is_padding = over_rows(&idx.eq_scalar(p as i64)?, w.dims().len() - 1)?;
        Ok(smallvec![select(&is_padding, &y.detach(), &y)?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b10)
    }
}

/// `torch.embedding`. A negative `padding_idx` counts from the end but for -1, which means none, as in aten.
///
/// # Errors
/// `Index` for an index outside the table (on `cpu`; see [`super::indexing`] for `tpu`), `Runtime` for a wrong dtype or rank.
pub fn embedding(w: &Tensor, idx: &Tensor, padding_idx: i64) -> Result<Tensor> {
    if w.dims().len() != 2 {
        return Err(Error::runtime("'weight' must be 2-D"));
    }
    dispatch::call(Prim::Embedding(Embedding { padding: usize::try_from(padding_idx).ok() }), &[w, idx])
}

/// Rows of the embedding.
pub const ROWS: &[Row] = &[Row::new(
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    Tier::Fused,
    |a| {
        if a.bool(4)? {
            return Err(Error::not_implemented("embedding: sparse gradients are not supported"));
        }
        if a.bool(3)? {
            return Err(Error::not_implemented("embedding: scale_grad_by_freq is not supported"));
        }
        Ok(embedding(a.tensor(0)?, a.tensor(1)?, a.int(2)?)?.into())
    },
    || {
        vec![
            Sample::new(vec![t(&[5, 3]), index(&[2, 4], 5)]),
            Sample::new(vec![t(&[5, 3]), index(&[4], 5), n(2)]).no_gradient(),
            Sample::new(vec![t(&[5, 3]), index(&[0], 5)]),
        ]
    },
)
.scope(Scope::Function)];
