//! Products that are added to a tensor: `addmm` and others.

use super::{Dot, check_batches, dot};
use crate::axes::{Axes, Combine, last, list};
use crate::op::{F64, Facts, Fused, KernelFn, Op, Outs, Prim, broadcast_dims, normalize_dim, same_device};
use crate::ops::pointwise::{independent_of, kernel_error, result_type};
use crate::ops::reduce::sum_mask;
use crate::policy::{Policies, Policy};
use crate::schema::Operand;
use crate::types::compute::{compute_dtype, narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;

/// [`blend`] for the product of `a` and `b`, after `of` was applied to it. 16-bit floats are rounded once, at the end.
fn blend_of_dot(
    x: &Tensor,
    a: &Tensor,
    b: &Tensor,
    beta: Scalar,
    alpha: Scalar,
    of: impl FnOnce(Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if !is_rounded(x, a) {
        return blend(x, of(dot(a, b)?)?, beta, alpha);
    }
    let wide = dispatch::call(Prim::Dot(Dot { wide: true, ..Dot::new(false, false) }), &[a, b])?;
    narrowed(blend(&widened(x)?, of(wide)?, beta, alpha)?, a.dtype())
}

/// [`blend`] for the product of `a` and `b`, as in [`blend_of_dot`].
fn blend_dot(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    let is_real = [beta, alpha].iter().all(|s| s.to_complex().1 == 0.0);
    if !is_rounded(x, a) || !is_real {
        return blend_of_dot(x, a, b, beta, alpha, Ok);
    }
    let op = Addmm { beta: F64::new(beta.to_f64()), alpha: F64::new(alpha.to_f64()) };
    dispatch::call(Prim::Addmm(op), &[x, a, b])
}

/// Whether operands of these dtypes are 16-bit floats, which are computed in `f32`.
fn is_rounded(x: &Tensor, a: &Tensor) -> bool {
    compute_dtype(a.dtype()) != a.dtype() && x.dtype() == a.dtype()
}

/// `y = beta * x + alpha * (a @ b)` for 16-bit floats, rounded once.
///
/// | operand | shape |
/// |---|---|
/// | x | broadcasts to y |
/// | a | `[b.., m, k]` |
/// | b | `[b.., k, n]` |
/// | y | `[b.., m, n]` |
///
/// `beta = 0` ignores `x`, even if it is NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Addmm {
    /// Factor of x.
    pub beta: F64,
    /// Factor of the product.
    pub alpha: F64,
}

impl Fused for Addmm {
    const NAME: &'static str = "addmm";
    const FACTS: Facts = Facts { autocast: Policies::both(Policy::Lower), ..Facts::NONE };
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let (beta, alpha) = (o.beta.get(), o.alpha.get());
        if beta != 0.0 {
            torchtpu_kernels::copy::copy(&x[0].expand_dims(y[0].dims())?.view(), &mut y[0].view_mut());
        }
        torchtpu_kernels::matmul::matmul_scaled(&x[1].view(), &x[2].view(), &mut y[0].view_mut(), alpha, beta)
            .map_err(kernel_error)
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(Meta { place: same_device(x)?, ..Dot::new(false, false).infer(&x[1..])? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let batch = list("b", y[0].dims.len() - 2);
        let dims = format!("{batch} m n");
        // The tensor is added in one part only.
        let text = format!("{}, {batch} m k, {batch} k n -> {dims}", last(&dims, x[0].dims.len()));
        Axes::parse(&text, x, y).reduces("k", Combine::Sum).once(0b001).linear(&[0b011, 0b101])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let [beta, alpha] = [self.beta, self.alpha].map(|v| Scalar::Float(v.get()));
        Ok(smallvec![blend_of_dot(x[0], x[1], x[2], beta, alpha, Ok)?])
    }
}

/// `beta * x + alpha * product`. `beta = 0` ignores `x`, even if it is NaN.
fn blend(x: &Tensor, product: Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    if !product.dtype().is_complex() && !x.dtype().is_complex() {
        for number in [beta, alpha].into_iter().filter(|s| s.to_complex().1 != 0.0) {
            crate::ops::creation::check_range(number, product.dtype())?;
        }
    }
    let whole = |s: Scalar| match product.dtype() {
        DType::Bool => Scalar::Bool(s.to_i64() != 0),
        d if d.is_inexact() => s,
        _ => Scalar::Int(s.to_i64()),
    };
    let (beta, alpha) = (whole(beta), whole(alpha));
    let y = if alpha.to_complex() == (1.0, 0.0) { product } else { product.mul_scalar(alpha)? };
    match beta.to_complex() {
        (0.0, 0.0) => {
            let dims = broadcast_dims(x.dims(), y.dims())?;
            independent_of(x, y.expand_dims(&dims)?)
        }
        (1.0, 0.0) => x.add(&y),
        _ => x.mul_scalar(beta)?.add(&y),
    }
}

/// Refuse operands of several dtypes, in PyTorch's words for each function.
fn check_dtypes(name: &str, x: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
    let (dx, da, db) = (x.dtype(), a.dtype(), b.dtype());
    if dx == da && da == db {
        if dx == DType::Bool && name != "addmv" && (a.numel() == 0 || b.numel() == 0) {
            return Err(Error::runtime("result type Long can't be cast to the desired output type Bool"));
        }
        return Ok(());
    }
    let [sx, sa, sb] = [dx, da, db].map(DType::scalar_type);
    let [cx, ca, cb] = [dx, da, db].map(DType::c_name);
    Err(Error::runtime(match name {
        "addmv" => format!("addmv input tensors must have the same dtype, but got {sx}, {sa}, and {sb}"),
        "baddbmm" => format!("Input dtypes must be the same, got: input {cx}, batch1: {ca}, batch2: {cb}"),
        _ => match dx == db {
            true => format!("expected m1 and m2 to have the same dtype, but got: {ca} != {cb}"),
            false => format!("self and mat2 must have the same dtype, but got {sx} and {sb}"),
        },
    }))
}

pub(super) fn baddbmm(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    check_dtypes("baddbmm", x, a, b)?;
    // Expand `x` before the sizes of the matrices are checked, as PyTorch does.
    let size = |t: &Tensor, d: i64| -> Result<i64> { Ok(t.dims()[normalize_dim(d, t.dims().len())?] as i64) };
    let x = match a.dims().len() {
        0 => x.clone(),
        _ => x.expand(&[size(a, 0)?, size(a, 1)?, size(b, 2)?])?,
    };
    check_batches(a, b)?;
    blend_dot(&x, a, b, beta, alpha)
}

pub(super) fn addmm(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    check_dtypes("addmm", x, a, b)?;
    for (t, name) in [(a, "mat1"), (b, "mat2")] {
        if t.dims().len() != 2 {
            return Err(Error::runtime(format!("addmm: {name} must be a matrix, got {}-D tensor", t.dims().len())));
        }
    }
    let (da, db) = (a.dims(), b.dims());
    if da[1] != db[0] {
        return Err(Error::runtime(format!(
            "addmm: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
            da[0], da[1], db[0], db[1]
        )));
    }
    let want = Dims::new(&[da[0], db[1]]);
    let fits = broadcast_dims(x.dims(), &want).is_ok_and(|d| d == want);
    if !fits {
        let d = x.dims();
        let i =
            (0..d.len()).rev().find(|&i| d[i] != 1 && want.get(i + want.len() - d.len()) != Some(&d[i])).unwrap_or(0);
        let j = (i + want.len()).saturating_sub(d.len());
        return Err(Error::runtime(format!(
            "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {j}.  \
            Target sizes: {want}.  Tensor sizes: {d}",
            want[j], d[i]
        )));
    }
    blend_dot(x, a, b, beta, alpha)
}

/// `beta * x + alpha * sum(a @ b)` over the batches.
pub(super) fn addbmm(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    check_dtypes("addbmm", x, a, b)?;
    check_batches(a, b)?;
    blend_of_dot(x, a, b, beta, alpha, |y| sum_mask(&y, 1)?.to_dtype(y.dtype()))
}

/// `beta * x + alpha * (a @ v)`.
pub(super) fn addmv(x: &Tensor, a: &Tensor, v: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    let (d, da, dv) = (x.dims(), a.dims(), v.dims());
    if da.len() != 2 || dv.len() != 1 || d.len() > 1 {
        return Err(Error::runtime(format!(
            "vector + matrix @ vector expected, got {}, {}, {}",
            d.len(),
            da.len(),
            dv.len()
        )));
    }
    let n = x.numel();
    if da[1] != dv[0] || n != 1 && n != da[0] {
        return Err(Error::runtime(format!(
            "size mismatch, got input ({n}), mat ({}x{}), vec ({})",
            da[0], da[1], dv[0]
        )));
    }
    check_dtypes("addmv", x, a, v)?;
    blend_of_dot(x, a, &v.unsqueeze(1)?, beta, alpha, |y| y.squeeze(1))
}

/// `beta * x + alpha * (a outer b)`.
pub(super) fn addr(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    for (t, name) in [(a, "vec1"), (b, "vec2")] {
        if t.dims().len() != 1 {
            return Err(Error::runtime(format!("addr: Expected 1-D argument {name}, but got {}-D", t.dims().len())));
        }
    }
    if x.dtype().is_half() && a.dtype() == x.dtype() && b.dtype() == x.dtype() {
        return narrowed(addr(&widened(x)?, &widened(a)?, &widened(b)?, beta, alpha)?, x.dtype());
    }
    let x = &x.expand(&[a.numel() as i64, b.numel() as i64])?;
    let dtype = result_type(Operand::Tensor(a), Operand::Tensor(b));
    let is_real = [beta, alpha].iter().all(|s| s.to_complex().1 == 0.0);
    if dtype.is_float() && is_real && alpha.to_f64() != 1.0 {
        // Scale before the product, which may overflow, as PyTorch does.
        let scaled = a.to_dtype(dtype)?.mul_scalar(alpha)?;
        return blend(x, scaled.outer(b)?, beta, Scalar::Int(1));
    }
    let product = a.outer(b)?;
    blend(x, product, beta, alpha)
}
