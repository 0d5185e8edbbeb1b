//! Linear and bilinear layers.

use super::{Dot, dot, swap_last};
use crate::axes::{Axes, Combine};
use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, Operand, misfit};
use crate::meta::element_type;
use crate::op::{Facts, Fused, Grads, KernelFn, LowerFn, Outs, Prim, Saves, VjpFn, same_device};
use crate::ops::complex;
use crate::ops::pointwise::kernel_error;
use crate::policy::{Policies, Policy};
use crate::types::compute::compute_dtype;
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::{View, ViewMut};

/// The number of vectors in a tensor along its last dimension, even if they have no elements.
fn rows(dims: &Dims) -> usize {
    dims[..dims.len() - 1].iter().product()
}

/// `x w^T + b` over the last dimension: the fused op of linear layers.
///
/// | operand | shape |
/// |---|---|
/// | x | `[.., in]` |
/// | w | `[out, in]` |
/// | b | `[out]`, optional |
/// | y | `[.., out]` |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Linear;

/// The kernel of [`Linear`] for a matrix `x`.
#[derive(Debug)]
pub(crate) struct LinearCall {
    bias: bool,
}

fields! {
    LinearCall { bias };
}

impl KernelCall for LinearCall {
    fn name() -> &'static str {
        "linear"
    }
    fn arity(&self) -> (usize, usize) {
        (2 + usize::from(self.bias), 1)
    }
    fn takes_windows(&self, i: usize) -> bool {
        i < 2
    }
    fn layout(&self, i: usize, x: &[Operand<'_>]) -> (Dims, Dims) {
        // The rows of the weight are the columns of the product's second operand.
        if i == 1 { (swap_last(&x[i].sizes), swap_last(&x[i].strides)) } else { (x[i].sizes, x[i].strides) }
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([x, w, b @ ..], [y]) = (x, y) else { return Err(misfit(self)) };
        torchtpu_kernels::matmul::addmm(x, w, b.first(), y).map_err(|e| e.to_string())
    }
}

impl Fused for Linear {
    const NAME: &'static str = "linear";
    const FACTS: Facts = Facts { autocast: Policies::both(Policy::Lower), ..Facts::NONE };
    const KERNEL: Option<KernelFn<Self>> = Some(|_, x, y| {
        let (n, k) = (x[1].dims()[0], x[1].dims()[1]);
        let rows = rows(y[0].dims());
        let flat = x[0].reshape_dims(Dims::new(&[rows, k]))?;
        let w = (swap_last(x[1].dims()), swap_last(x[1].strides()));
        let out = y[0].reshape_dims(Dims::new(&[rows, n]))?;
        let bias = x.get(2).map(|b| b.view());
        torchtpu_kernels::matmul::addmm(&flat.view(), &x[1].view_as(&w.0, &w.1), bias.as_ref(), &mut out.view_mut())
            .map_err(kernel_error)
    });
    const LOWER: Option<LowerFn<Self>> = Some(|_, f, x, y| {
        let (n, k) = (x[1].shape()[0], x[1].shape()[1]);
        if kernel_call::is_profitable(f, x[0].element(), y[0].dims.numel() * k) {
            let flat = Meta { dims: Dims::new(&[y[0].dims.numel() / n, n]), ..y[0] };
            let mut operands = x.to_vec();
            operands[0] = f.reshape(&x[0], &[flat.dims[0], k]);
            let z = LinearCall { bias: x.len() > 2 }.call_kernel(f, &operands, &[flat]).remove(0);
            return smallvec![f.reshape(&z, &y[0].dims)];
        }
        let e = element_type(y[0].dtype);
        // With a bias, 16-bit floats are rounded after it was added.
        let sums = element_type(if x.len() > 2 { compute_dtype(y[0].dtype) } else { y[0].dtype });
        let z = f.dot_general(&x[0], &x[1], (&[], &[]), (&[x[0].rank() - 1], &[1]), sums, None);
        smallvec![match x.get(2) {
            Some(b) => {
                let b = f.convert(b, sums);
                let b = f.broadcast_to(&b, &y[0].dims);
                let z = f.binary("stablehlo.add", &z, &b);
                f.convert(&z, e)
            }
            None => z,
        }]
    });
    const VJP: Option<VjpFn<Self>> = Some(|_, s, g| {
        let (n, k) = (s.meta(1).dims[0], s.meta(1).dims[1]);
        let rows = rows(g.dims());
        let g2 = g.reshape_dims(Dims::new(&[rows, n]))?;
        let gx = if s.needs(0) { Some(dot(&g2, &s.x(1).conj()?)?.reshape_dims(s.meta(0).dims)?) } else { None };
        let gw = if s.needs(1) {
            let x2 = s.x(0).conj()?.reshape_dims(Dims::new(&[rows, k]))?;
            Some(dispatch::call(Prim::Dot(Dot::new(true, false)), &[&g2, &x2])?)
        } else {
            None
        };
        let mut grads: Grads = smallvec![gx, gw];
        if s.len() > 2 {
            grads.push(if s.needs(2) { Some(g2.sum_to(&s.meta(2).dims)?) } else { None });
        }
        Ok(grads)
    });
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (a, w) = (x[0], x[1]);
        let k = a.dims().last().copied().unwrap_or(1);
        if a.dims().is_empty() || w.dims().is_empty() {
            return Err(Error::runtime(format!(
                "both arguments to linear need to be at least 1D, but they are {}D and {}D",
                a.dims().len(),
                w.dims().len()
            )));
        }
        if w.dims().len() != 2 {
            return Err(Error::runtime(format!(
                "t() expects a tensor with <= 2 dimensions, but self is {}D",
                w.dims().len()
            )));
        }
        if a.dtype() != w.dtype() {
            return Err(Error::runtime(if x.len() > 2 {
                format!(
                    "mat1 and mat2 must have the same dtype, but got {} and {}",
                    a.dtype().scalar_type(),
                    w.dtype().scalar_type()
                )
            } else {
                format!(
                    "expected m1 and m2 to have the same dtype, but got: {} != {}",
                    a.dtype().c_name(),
                    w.dtype().c_name()
                )
            }));
        }
        if a.dtype() == DType::Bool {
            return Err(complex::unsupported("addmm_impl_cpu_", a.dtype()));
        }
        if k != w.dims()[1] {
            let rows: usize = a.dims()[..a.dims().len() - 1].iter().product();
            return Err(Error::runtime(format!(
                "{}: mat1 and mat2 shapes cannot be multiplied ({rows}x{k} and {}x{})",
                if x.len() > 2 { "addmm" } else { "mm" },
                w.dims()[1],
                w.dims()[0]
            )));
        }
        if let Some(b) = x.get(2) {
            if b.dims().len() != 1 || b.dims()[0] != w.dims()[0] && b.dims()[0] != 1 {
                let mut to = *a.dims();
                to.set(a.dims().len() - 1, w.dims()[0]);
                return Err(Error::runtime(format!(
                    "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension \
                    {}.  Target sizes: {}.  Tensor sizes: {}",
                    w.dims()[0],
                    b.dims().last().copied().unwrap_or(1),
                    a.dims().len() - 1,
                    to,
                    b.dims()
                )));
            }
            if b.dtype() != a.dtype() {
                return Err(Error::runtime(format!(
                    "self and mat2 must have the same dtype, but got {} and {}",
                    b.dtype().scalar_type(),
                    w.dtype().scalar_type()
                )));
            }
        }
        let mut dims = *a.dims();
        let r = dims.len();
        dims.set(r - 1, w.dims()[0]);
        Ok(Meta { dims, dtype: a.dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        // The bias is added in one part only.
        let axes = Axes::parse("... k, n k, n -> ... n", x, y).reduces("k", Combine::Sum).once(0b100);
        if x.len() > 2 { axes.linear(&[0b101, 0b110]) } else { axes.once(0).linear(&[0b01, 0b10]) }
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let y = x[0].matmul(&x[1].t()?)?;
        Ok(smallvec![match x.get(2) {
            Some(b) => y.add(b)?,
            None => y,
        }])
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::inputs((needs >> 1 & 1) | (needs & 1) << 1)
    }
}

/// `torch.nn.functional.linear`.
pub fn linear(x: &Tensor, w: &Tensor, b: Option<&Tensor>) -> Result<Tensor> {
    if w.dims().len() == 1 && !x.dims().is_empty() {
        if b.is_some() && x.dims().len() == 2 {
            return Err(Error::runtime("addmm: mat2 must be a matrix, got 1-D tensor"));
        }
        // A vector of weights gives one output, without a dimension for it.
        let y = x.matmul(w)?;
        return match b {
            Some(b) => y.add(b),
            None => Ok(y),
        };
    }
    match b {
        Some(b) if b.dims().len() == 1 => dispatch::call(Prim::Linear(Linear), &[x, w, b]),
        Some(b) => dispatch::call(Prim::Linear(Linear), &[x, w])?.add(b),
        None => match super::of_no_bools(x, w, |x, w| linear(x, w, None)) {
            Some(y) => y,
            None => dispatch::call(Prim::Linear(Linear), &[x, w]),
        },
    }
}

/// `torch.nn.functional.bilinear`: `y[.., o] = a[.., i] w[o, i, j] b[.., j] + bias[o]`.
///
/// # Errors
/// `Runtime` for sizes or dtypes that do not fit.
pub fn bilinear(a: &Tensor, b: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if a.dtype() != b.dtype() || a.dtype() != w.dtype() {
        let name = DType::c_name;
        return Err(Error::runtime(format!(
            "All tensors must have the same dtype, got input1: {}, input2: {}, weight: {}",
            name(a.dtype()),
            name(b.dtype()),
            name(w.dtype())
        )));
    }
    let (da, db, dw) = (a.dims(), b.dims(), w.dims());
    if da.len() != db.len() {
        return Err(Error::runtime(format!(
            "bilinear(): input dimensions do not match: got {} and {}",
            da.len(),
            db.len()
        )));
    }
    if da.is_empty() || dw.len() != 3 {
        return Err(Error::runtime(format!(
            "bilinear(): expected inputs with dimensions and a 3-D weight, got {da} and {dw}"
        )));
    }
    let rank = da.len();
    if let Some(i) = (0..rank - 1).find(|&i| da[i] != db[i]) {
        return Err(Error::runtime(format!(
            "bilinear(): input batch dimensions do not match at dim {i}: got {} and {}",
            da[i], db[i]
        )));
    }
    for (which, have, want) in [(1, da[rank - 1], dw[1]), (2, db[rank - 1], dw[2])] {
        if have != want {
            return Err(Error::runtime(format!(
                "bilinear(): input{which} size does not match weight size: got {have} but expected {want}"
            )));
        }
    }
    if let Some(bias) = bias.filter(|b| b.numel() != dw[0]) {
        return Err(Error::runtime(format!(
            "bilinear(): bias size does not match weight size: got {} but expected {}",
            bias.numel(),
            dw[0]
        )));
    }
    let (batch, [o, i, j]) = (da[..rank - 1].iter().product(), [dw[0], dw[1], dw[2]]);
    let flat = a.reshape_dims(Dims::new(&[batch, i]))?;
    let matrices = w.permute(&[1, 0, 2])?.reshape_dims(Dims::new(&[i, o * j]))?;
    let half = flat.mm(&matrices)?.reshape_dims(Dims::new(&[batch, o, j]))?;
    let y = half.bmm(&b.reshape_dims(Dims::new(&[batch, j, 1]))?)?;
    let y = y.reshape_dims(da[..rank - 1].iter().copied().chain([o]).collect())?;
    match bias {
        Some(bias) => y.add(bias),
        None => Ok(y),
    }
}
