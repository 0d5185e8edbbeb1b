//! `Spread`: the variance or the standard deviation, with the mean.

use super::{ReduceKind, kept, kept_as_one, masked, reduce_mask};
use crate::axes::{Axes, names};
use crate::op::{F64, Fused, Grads, KernelFn, LowerFn, Outs, Prim, Saves, VjpFn, normalize_dims};
use crate::ops::complex::complex;
use crate::ops::pointwise::{safe_sqrt, select_scalar};
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::reduce as kernels;
use torchtpu_stablehlo::{ElementType, ReduceKind as Fold};

/// `sum((x - mean)^2) / (n - correction)` over the dimensions of a bit mask, which are removed, or its square root, and
/// the mean.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | any | floating point |
/// | y, mean | those of x that are not in the mask | as x |
///
/// Sums are `float64` for all dtypes on `cpu` and on XLA:CPU, and rounded once. On accelerators they are `float32`,
/// except for `float64`: squares beyond 1e38 are infinite there, and those below 1e-38 vanish. Of no elements, both
/// results are NaN. Where all elements are equal, the gradient of the deviation is zero. Saves x, the mean unless
/// the caller has it, and the deviation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Spread {
    /// Bit `i`: dimension `i` is removed.
    pub mask: u64,
    /// The number that is subtracted from the count.
    pub correction: F64,
    /// Whether to return the standard deviation; else the variance.
    pub root: bool,
    /// Whether the caller reads the mean too.
    pub pair: bool,
}

impl Spread {
    fn count(&self, dims: &Dims) -> f64 {
        masked(self.mask, dims.len()).iter().map(|&i| dims[i]).product::<usize>() as f64
    }
    fn divisor(&self, dims: &Dims) -> f64 {
        (self.count(dims) - self.correction.get()).max(0.0)
    }
}

impl Fused for Spread {
    const NAME: &'static str = "var";
    const OUTS: usize = 2;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let mask: SmallVec<[bool; 8]> = (0..x[0].dims().len()).map(|i| o.mask >> i & 1 != 0).collect();
        let (out, mean) = (&mut y[0].view_mut(), &mut y[1].view_mut());
        kernels::spread(&x[0].view(), &mask, o.correction.get(), o.root, out, mean)
            .map_err(crate::ops::pointwise::kernel_error)
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| {
        let (x, dims) = (&x[0], masked(o.mask, x[0].rank()));
        let rest: Vec<usize> = (0..x.rank()).filter(|d| !dims.contains(d)).collect();
        let e = x.element();
        let wide = if f.profile().has_f64 { ElementType::F64 } else { e.widened() };
        let v = f.convert(x, wide);
        let sum = f.reduce(&v, Fold::Add, &dims);
        let shape = Dims::new(x.shape());
        let count = f.splat(o.count(&shape), sum.ty());
        let mean = f.binary("stablehlo.divide", &sum, &count);
        let each = f.broadcast_in_dim(&mean, x.shape(), &rest);
        let d = f.binary("stablehlo.subtract", &v, &each);
        let squares = f.binary("stablehlo.multiply", &d, &d);
        let squares = f.reduce(&squares, Fold::Add, &dims);
        // The mean is rounded. Its error is in all distances, and matters if values are large compared to their spread.
        let off = f.reduce(&d, Fold::Add, &dims);
        let off = f.binary("stablehlo.multiply", &off, &off);
        let off = f.binary("stablehlo.divide", &off, &count);
        let squares = f.binary("stablehlo.subtract", &squares, &off);
        let zero = f.splat(0.0, squares.ty());
        let squares = f.binary("stablehlo.maximum", &squares, &zero);
        let divisor = f.splat(o.divisor(&shape), squares.ty());
        let mut spread = f.binary("stablehlo.divide", &squares, &divisor);
        if o.root {
            spread = f.unary("stablehlo.sqrt", &spread);
        }
        debug_assert_eq!(spread.shape(), &y[0].dims[..]);
        smallvec![f.convert(&spread, e), f.convert(&mean, e)]
    });
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let is_narrow = s.meta(0).dtype.is_half();
        s.widely(g, |s, _| -> Result<Grads> {
            let dims = s.meta(0).dims;
            let (count, divisor) = (o.count(&dims), o.divisor(&dims));
            let spread = |g: &Tensor| g.reshape_dims(kept_as_one(&dims, o.mask));
            let mut gx: Option<Tensor> = None;
            if let Some(g) = s.g(0) {
                let x = s.x(0);
                // A mean of 16-bit floats is too coarse for distances from it. One that the caller has may be written.
                let mean = if is_narrow || o.pair {
                    reduce_mask(ReduceKind::Sum, x, o.mask, true)?.div_scalar(count)?
                } else {
                    spread(s.y(1))?
                };
                let slope = if o.root {
                    let zero = s.y(0).eq_scalar(0.0)?;
                    select_scalar(&zero, 0.0, &g.div(&select_scalar(&zero, 1.0, s.y(0))?)?)?.div_scalar(divisor)?
                } else {
                    g.mul_scalar(2.0 / divisor)?
                };
                gx = Some(x.sub(&mean)?.mul(&spread(&slope)?)?);
            }
            if let Some(g) = s.g(1) {
                let each = spread(g)?.div_scalar(count)?.expand_dims(&dims)?;
                gx = Some(match gx {
                    Some(gx) => gx.add(&each)?,
                    None => each,
                });
            }
            Ok(smallvec![gx])
        })
    });
    fn label(&self) -> &'static str {
        match (self.root, self.pair) {
            (false, false) => "var",
            (false, true) => "var_mean",
            (true, false) => "std",
            (true, true) => "std_mean",
        }
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let m = x[0].meta();
        if !m.dtype.is_float() {
            return Err(Error::not_implemented("std and var only support floating point and complex dtypes"));
        }
        Ok(m.with_dims(kept(&m.dims, self.mask)))
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        *first
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let dims: Vec<String> = names("d", x[0].dims.len()).collect();
        let pick = |i: usize| self.mask >> i & 1 == 0;
        let all: Vec<&str> = (0..dims.len()).map(|i| if pick(i) { dims[i].as_str() } else { "_" }).collect();
        let kept = (0..dims.len()).filter(|i| pick(*i)).map(|i| dims[i].as_str()).collect::<Vec<_>>().join(" ");
        Axes::parse(&format!("{} -> {kept}, {kept}", all.join(" ")), x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (v, dims) = (x[0].to_dtype(DType::F64)?, x[0].dims());
        let mean = reduce_mask(ReduceKind::Sum, &v, self.mask, true)?.div_scalar(self.count(dims))?;
        let squares = reduce_mask(ReduceKind::Sum, &v.sub(&mean)?.square()?, self.mask, false)?;
        let var = squares.div_scalar(self.divisor(dims))?;
        let y = if self.root { safe_sqrt(&var)? } else { var };
        let mean = mean.reshape_dims(kept(dims, self.mask))?;
        Ok(smallvec![y.to_dtype(x[0].dtype())?, mean.to_dtype(x[0].dtype())?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both(1, u64::from(!self.pair) << 1 | u64::from(self.root))
    }
}

/// The variance or standard deviation over dimensions, and the mean. `pair` says whether the caller reads the mean.
fn spread_of(
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: f64,
    keep: bool,
    root: bool,
    pair: bool,
) -> Result<(Tensor, Tensor)> {
    if !x.dtype().is_inexact() {
        return Err(Error::not_implemented("std and var only support floating point and complex dtypes"));
    }
    if x.dtype().is_complex() {
        // The spread around the mean in both parts of complex numbers. It is real.
        let (re, re_mean) = var_mean(&x.real()?, dims, correction, keep)?;
        let (im, im_mean) = var_mean(&x.imag()?, dims, correction, keep)?;
        let var = re.add(&im)?;
        return Ok((if root { safe_sqrt(&var)? } else { var }, complex(&re_mean, &im_mean)?));
    }
    let mask = normalize_dims(dims.unwrap_or(&[]), x.dims().len())?;
    let op = Spread { mask, correction: F64::new(correction), root, pair };
    let mut y = dispatch::call_n(Prim::Spread(op), &[x])?;
    let (mean, y) = (y.pop().expect("two outputs"), y.pop().expect("two outputs"));
    if !keep {
        return Ok((y, mean));
    }
    let one = kept_as_one(x.dims(), mask);
    Ok((y.reshape_dims(one)?, mean.reshape_dims(one)?))
}

/// Variance and mean over dimensions. The divisor is the count minus `correction`.
pub fn var_mean(x: &Tensor, dims: Option<&[i64]>, correction: f64, keep: bool) -> Result<(Tensor, Tensor)> {
    spread_of(x, dims, correction, keep, false, true)
}

/// The function `name`: the variance or the standard deviation, and the mean. It warns if the divisor is not positive.
pub(super) fn spread(
    name: &str,
    x: &Tensor,
    dims: Option<&[i64]>,
    correction: f64,
    keep: bool,
) -> Result<(Tensor, Tensor)> {
    let (y, mean) = spread_of(x, dims, correction, keep, name.starts_with("std"), name.ends_with("mean"))?;
    let count = x.numel() as f64 / y.numel() as f64;
    if y.numel() > 0 && count - correction <= 0.0 {
        crate::warning::warn(&format!(
            "{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input \
            numel divided by output numel)."
        ))?;
    }
    Ok((y, mean))
}
