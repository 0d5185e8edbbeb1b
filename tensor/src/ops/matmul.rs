//! The matmul family: one primitive, `Dot`, a batched contraction; everything else is made of it.

use crate::op::{F64, Func, Grads, Op, Prim, Saved, Saves, Value, Values, same_device};
use crate::ops::dtype::{c_name, compute_dtype, narrowed, widened};
use crate::ops::kernel_call::{self, KernelCall};
use crate::ops::pointwise::kernel_error;
use crate::schema::{Row, Sample, Scope, Tier, n, t};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, samples};
use smallvec::smallvec;

/// `y[b.., i, j] = sum_k a[b.., i, k] * b[b.., k, j]`, where either operand may be stored transposed.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[b.., m, k]`, or `[b.., k, m]` with `ta` | any, the same for both |
/// | b | `[b.., k, n]`, or `[b.., n, k]` with `tb` | |
/// | y | `[b.., m, n]` | |
///
/// C1: equal leading sizes. C2: equal `k`. C3: equal dtypes. Floats below `f32` accumulate in `f32`, and are rounded when the
/// sum is whole, or not at all if `wide`: then the result is `f32`. `k = 0` gives zeros.
/// Transposition is an attribute so that a weight stored `[out, in]` is contracted in place: an explicit transpose before a
/// one-row product copies the weight on XLA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dot {
    /// `a` is stored with its last two dimensions swapped.
    pub ta: bool,
    /// `b` is stored with its last two dimensions swapped.
    pub tb: bool,
    /// The sums of 16-bit floats are returned as they are.
    pub wide: bool,
}

impl Dot {
    fn new(ta: bool, tb: bool) -> Dot {
        Dot { ta, tb, wide: false }
    }
}

pub(super) fn swap_last(d: &Dims) -> Dims {
    let mut d = *d;
    let n = d.len();
    d.swap(n - 2, n - 1);
    d
}

impl Op for Dot {
    const NAME: &'static str = "matmul";
    fn label(&self) -> &'static str {
        "mm"
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (a, b) = (x[0], x[1]);
        let da = if self.ta { swap_last(a.dims()) } else { *a.dims() };
        let db = if self.tb { swap_last(b.dims()) } else { *b.dims() };
        let r = da.len();
        if a.dtype() != b.dtype() {
            return Err(Error::runtime(format!(
                "expected m1 and m2 to have the same dtype, but got: {} != {}",
                c_name(a.dtype()),
                c_name(b.dtype())
            ))); // C3
        }
        if a.dtype() == DType::Bool {
            return Err(super::complex::unsupported("addmm_impl_cpu_", a.dtype()));
        }
        if da[r - 1] != db[r - 2] || da[..r - 2] != db[..r - 2] {
            return Err(Error::runtime(format!(
                "mm: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
                da[..r - 1].iter().product::<usize>(),
                da[r - 1],
                db[r - 2],
                db[r - 1]
            ))); // C1, C2
        }
        let mut dims = da;
        dims[r - 1] = db[r - 1];
        let dtype = if self.wide { compute_dtype(a.dtype()) } else { a.dtype() };
        Ok(Meta { dims, dtype, device: same_device(x)? })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let oriented = |t: &Tensor, swap: bool| {
            if swap { (swap_last(t.dims()), swap_last(t.strides())) } else { (*t.dims(), *t.strides()) }
        };
        let (da, sa) = oriented(x[0], self.ta);
        let (db, sb) = oriented(x[1], self.tb);
        torchtpu_kernels::matmul::matmul(&x[0].view_as(&da, &sa), &x[1].view_as(&db, &sb), &mut y[0].view_mut())
            .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let r = x[0].rank();
        let batch: Vec<usize> = (0..r - 2).collect();
        let (ca, cb) = (if self.ta { r - 2 } else { r - 1 }, if self.tb { r - 1 } else { r - 2 });
        if kernel_call::serves(f, x[0].element(), y[0].dims.numel() * x[0].shape()[ca]) {
            return KernelCall::Matmul(*self).lower(f, [&x[0], &x[1]], y);
        }
        let e = crate::meta::element_type(y[0].dtype);
        smallvec![f.dot_general(&x[0], &x[1], (&batch, &batch), (&[ca], &[cb]), e, None)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let dot = |a: &Tensor, ta: bool, b: &Tensor, tb: bool| dispatch::call(Prim::Dot(Dot::new(ta, tb)), &[a, b]);
        let x = |i: usize| s.x(i).conj();
        let g = &narrowed(g.clone(), s.meta(0).dtype)?;
        let ga = if !s.needs(0) {
            None
        } else if self.ta {
            Some(dot(&x(1)?, self.tb, g, true)?)
        } else {
            Some(dot(g, false, &x(1)?, !self.tb)?)
        };
        let gb = if !s.needs(1) {
            None
        } else if self.tb {
            Some(dot(g, true, &x(0)?, self.ta)?)
        } else {
            Some(dot(&x(0)?, !self.ta, g, false)?)
        };
        Ok(smallvec![ga, gb])
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::inputs((needs >> 1 & 1) | (needs & 1) << 1)
    }
}

/// `a @ b` of two tensors with the same leading sizes.
fn dot(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    dispatch::call(Prim::Dot(Dot::new(false, false)), &[a, b])
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

impl crate::op::Fused for Linear {
    const NAME: &'static str = "linear";
    const KERNEL: Option<crate::op::KernelFn<Self>> = Some(|_, x, y| {
        let (rows, k) =
            (x[0].numel() / x[0].dims().last().copied().unwrap_or(1).max(1), *x[1].dims().last().expect("2-d"));
        let flat =
            x[0].reshape_dims(Dims::new(&[if k == 0 { y[0].numel() / x[1].dims()[0].max(1) } else { rows }, k]))?;
        let w = (swap_last(x[1].dims()), swap_last(x[1].strides()));
        let out = y[0].reshape_dims(Dims::new(&[flat.dims()[0], x[1].dims()[0]]))?;
        let bias = x.get(2).map(|b| b.view());
        torchtpu_kernels::matmul::addmm(&flat.view(), &x[1].view_as(&w.0, &w.1), bias.as_ref(), &mut out.view_mut())
            .map_err(kernel_error)
    });
    const LOWER: Option<crate::op::LowerFn<Self>> = Some(|_, f, x, y| {
        let (n, k) = (x[1].shape()[0], x[1].shape()[1]);
        if kernel_call::serves(f, x[0].element(), y[0].dims.numel() * k) {
            let flat = Meta { dims: Dims::new(&[y[0].dims.numel() / n, n]), ..y[0] };
            let mut operands = x.to_vec();
            operands[0] = f.reshape(&x[0], &[flat.dims[0], k]);
            let z = KernelCall::Linear { bias: x.len() > 2 }.lower(f, &operands, &[flat]).remove(0);
            return smallvec![f.reshape(&z, &y[0].dims)];
        }
        let e = crate::meta::element_type(y[0].dtype);
        // With a bias, 16-bit floats are rounded when it has been added.
        let sums = crate::meta::element_type(if x.len() > 2 { compute_dtype(y[0].dtype) } else { y[0].dtype });
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
    const VJP: Option<crate::op::VjpFn<Self>> = Some(|_, s, g| {
        let (n, k) = (s.meta(1).dims[0], s.meta(1).dims[1]);
        let rows = g.numel() / n.max(1);
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
                    c_name(a.dtype()),
                    c_name(w.dtype())
                )
            }));
        }
        if a.dtype() == DType::Bool {
            return Err(super::complex::unsupported("addmm_impl_cpu_", a.dtype()));
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
                to[a.dims().len() - 1] = w.dims()[0];
                return Err(Error::runtime(format!(
                    "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {}.  Target sizes: {}.  Tensor sizes: {}",
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
        dims[r - 1] = w.dims()[0];
        Ok(Meta { dims, dtype: a.dtype(), device: same_device(x)? })
    }
    fn expand(&self, x: &[&Tensor]) -> Result<crate::op::Outs> {
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
        // A vector of weights is one output without its dimension.
        let y = x.matmul(w)?;
        return match b {
            Some(b) => y.add(b),
            None => Ok(y),
        };
    }
    match b {
        Some(b) if b.dims().len() == 1 => dispatch::call(Prim::Linear(Linear), &[x, w, b]),
        Some(b) => dispatch::call(Prim::Linear(Linear), &[x, w])?.add(b),
        None => dispatch::call(Prim::Linear(Linear), &[x, w]),
    }
}

/// `torch.nn.functional.bilinear`: `y[.., o] = a[.., i] w[o, i, j] b[.., j] + bias[o]`.
///
/// # Errors
/// `Runtime` for sizes or dtypes that do not fit.
pub fn bilinear(a: &Tensor, b: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if a.dtype() != b.dtype() || a.dtype() != w.dtype() {
        let name = c_name;
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

impl Tensor {
    /// `torch.matmul`: vectors, matrices and batches, leading sizes broadcast.
    ///
    /// # Errors
    /// `Runtime` in PyTorch's wording when shapes or dtypes do not fit.
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        let (a, b) = (self, other);
        let (ra, rb) = (a.dims().len(), b.dims().len());
        if ra == 0 || rb == 0 {
            return Err(Error::runtime(format!(
                "both arguments to matmul need to be at least 1D, but they are {ra}D and {rb}D"
            )));
        }
        match (ra, rb) {
            (1, 1) => return a.dot(b),
            (2, 2) => return a.mm(b),
            (2, 1) => return a.mv(b),
            (1, 2) => return a.unsqueeze(0)?.mm(b)?.squeeze(0),
            _ => {}
        }
        let a2 = if ra == 1 { a.unsqueeze(0)? } else { a.clone() };
        let b2 = if rb == 1 { b.unsqueeze(1)? } else { b.clone() };
        let (da, db) = (*a2.dims(), *b2.dims());
        let (na, nb) = (da.len(), db.len());
        let y = if nb == 2 {
            if rb == 1 && da[na - 1] != db[0] {
                let rows: usize = da[..na - 1].iter().product();
                return Err(Error::runtime(format!(
                    "size mismatch, got input ({rows}), mat ({rows}x{}), vec ({})",
                    da[na - 1],
                    db[0]
                )));
            }
            // One matrix for all: fold the leading dimensions into rows.
            let rows = da[..na - 1].iter().product();
            let flat = a2.reshape_dims(Dims::new(&[rows, da[na - 1]]))?;
            let y = flat.mm(&b2)?;
            let mut dims = da;
            dims[na - 1] = db[1];
            y.view_dims(dims)?
        } else {
            let (la, lb): (Dims, Dims) =
                (da[..na - 2].iter().copied().collect(), db[..nb - 2].iter().copied().collect());
            let lead = crate::op::broadcast_dims(&la, &lb)?;
            if da[na - 1] != db[nb - 2] {
                return Err(Error::runtime(format!(
                    "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
                    lead.numel(),
                    da[na - 1],
                    lead.numel(),
                    db[nb - 2]
                )));
            }
            let with = |t: &Dims| -> Dims { lead.iter().copied().chain([t[t.len() - 2], t[t.len() - 1]]).collect() };
            let count = lead.numel();
            let fold = |t: &Tensor| -> Result<Tensor> {
                let d = with(t.dims());
                t.expand_dims(&d)?.reshape_dims(Dims::new(&[count, d[d.len() - 2], d[d.len() - 1]]))
            };
            let y = dot(&fold(&a2)?, &fold(&b2)?)?;
            let mut dims = lead;
            dims.push(da[na - 2]);
            dims.push(db[nb - 1]);
            y.view_dims(dims)?
        };
        let y = if ra == 1 { y.squeeze(-2)? } else { y };
        if rb == 1 { y.squeeze(-1) } else { Ok(y) }
    }
    /// Matrix product.
    ///
    /// # Errors
    /// `Runtime` when an operand is no matrix or sizes differ.
    pub fn mm(&self, other: &Tensor) -> Result<Tensor> {
        if self.dims().len() != 2 {
            return Err(Error::runtime(format!("mm: self must be a matrix, got {}-D tensor", self.dims().len())));
        }
        if other.dims().len() != 2 {
            return Err(Error::runtime(format!("mm: mat2 must be a matrix, got {}-D tensor", other.dims().len())));
        }
        dot(self, other)
    }
    /// Batch of matrix products.
    ///
    /// # Errors
    /// `Runtime` when an operand is no batch of matrices or sizes differ.
    pub fn bmm(&self, other: &Tensor) -> Result<Tensor> {
        check_batches(self, other)?;
        dot(self, other)
    }
    /// Matrix times vector.
    ///
    /// # Errors
    /// `Runtime` when sizes differ.
    pub fn mv(&self, v: &Tensor) -> Result<Tensor> {
        if self.dims().len() != 2 || v.dims().len() != 1 {
            return Err(Error::runtime(format!(
                "vector + matrix @ vector expected, got {}, {}, {}",
                1,
                self.dims().len(),
                v.dims().len()
            )));
        }
        if self.dims()[1] != v.dims()[0] {
            return Err(Error::runtime(format!(
                "size mismatch, got input ({}), mat ({}x{}), vec ({})",
                self.dims()[0],
                self.dims()[0],
                self.dims()[1],
                v.dims()[0]
            )));
        }
        dot(self, &v.unsqueeze(1)?)?.squeeze(1)
    }
    /// Inner product of two vectors.
    ///
    /// # Errors
    /// `Runtime` when an operand is no vector or sizes differ.
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        if self.dims().len() != 1 || other.dims().len() != 1 {
            return Err(Error::runtime(format!(
                "1D tensors expected, but got {}D and {}D tensors",
                self.dims().len(),
                other.dims().len()
            )));
        }
        if self.dtype() != other.dtype() {
            return Err(Error::runtime(format!(
                "dot : expected both vectors to have same dtype, but found {} and {}",
                self.dtype().scalar_type(),
                other.dtype().scalar_type()
            )));
        }
        if self.numel() != other.numel() {
            return Err(Error::runtime(format!(
                "inconsistent tensor size, expected tensor [{}] and src [{}] to have the same number of elements, but got {} and {} elements respectively",
                self.numel(),
                other.numel(),
                self.numel(),
                other.numel()
            )));
        }
        dot(&self.unsqueeze(0)?, &other.unsqueeze(1)?)?.view_dims(Dims::EMPTY)
    }
    /// Outer product of two vectors.
    ///
    /// # Errors
    /// `Runtime` when an operand is no vector.
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        for (t, name) in [(self, "self"), (other, "vec2")] {
            if t.dims().len() != 1 {
                return Err(Error::runtime(format!(
                    "outer: Expected 1-D argument {name}, but got {}-D",
                    t.dims().len()
                )));
            }
        }
        self.unsqueeze(1)?.mul(other)
    }
}

fn check_batches(a: &Tensor, b: &Tensor) -> Result<()> {
    for (t, name) in [(a, "batch1"), (b, "batch2")] {
        if t.dims().len() != 3 {
            return Err(Error::runtime(format!("{name} must be a 3D tensor")));
        }
    }
    let (a, b) = (a.dims(), b.dims());
    if a[0] != b[0] || a[2] != b[1] {
        return Err(Error::runtime(format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
            a[0], a[2], b[0], b[1]
        )));
    }
    Ok(())
}

/// [`blend`] of a product of `a` and `b`, or of what `of` makes of that; 16-bit floats are rounded once, at the end.
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
    let wide = dispatch::call(Prim::Dot(Dot { ta: false, tb: false, wide: true }), &[a, b])?;
    narrowed(blend(&widened(x)?, of(wide)?, beta, alpha)?, a.dtype())
}

/// [`blend`] of the product of `a` and `b`, as [`blend_of_dot`].
fn blend_dot(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    let is_real = [beta, alpha].iter().all(|s| s.to_complex().1 == 0.0);
    if !is_rounded(x, a) || !is_real {
        return blend_of_dot(x, a, b, beta, alpha, Ok);
    }
    let op = Addmm { beta: F64::new(beta.to_f64()), alpha: F64::new(alpha.to_f64()) };
    dispatch::call(Prim::Addmm(op), &[x, a, b])
}

/// Whether numbers of these dtypes are 16-bit floats, which are computed with as `f32`.
fn is_rounded(x: &Tensor, a: &Tensor) -> bool {
    compute_dtype(a.dtype()) != a.dtype() && x.dtype() == a.dtype()
}

/// `y = beta * x + alpha * (a @ b)` of 16-bit floats, rounded once.
///
/// | operand | shape |
/// |---|---|
/// | x | broadcasts to y |
/// | a | `[b.., m, k]` |
/// | b | `[b.., k, n]` |
/// | y | `[b.., m, n]` |
///
/// `beta = 0` ignores x, NaN included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Addmm {
    /// Factor of x.
    pub beta: F64,
    /// Factor of the product.
    pub alpha: F64,
}

impl crate::op::Fused for Addmm {
    const NAME: &'static str = "addmm";
    const KERNEL: Option<crate::op::KernelFn<Self>> = Some(|o, x, y| {
        let (beta, alpha) = (o.beta.get(), o.alpha.get());
        if beta != 0.0 {
            torchtpu_kernels::copy::copy(&x[0].expand_dims(y[0].dims())?.view(), &mut y[0].view_mut());
        }
        torchtpu_kernels::matmul::matmul_scaled(&x[1].view(), &x[2].view(), &mut y[0].view_mut(), alpha, beta)
            .map_err(kernel_error)
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(Meta { device: same_device(x)?, ..Dot::new(false, false).infer(&x[1..])? })
    }
    fn expand(&self, x: &[&Tensor]) -> Result<crate::op::Outs> {
        let [beta, alpha] = [self.beta, self.alpha].map(|v| Scalar::Float(v.get()));
        Ok(smallvec![blend_of_dot(x[0], x[1], x[2], beta, alpha, Ok)?])
    }
}

/// `beta * x + alpha * product`; `beta = 0` ignores `x`, NaN included.
fn blend(x: &Tensor, product: Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    let whole = |s: Scalar| match product.dtype() {
        DType::Bool => Scalar::Bool(s.to_i64() != 0),
        d if d.is_inexact() => s,
        _ => Scalar::Int(s.to_i64()),
    };
    let (beta, alpha) = (whole(beta), whole(alpha));
    let y = if alpha.to_complex() == (1.0, 0.0) { product } else { product.mul_scalar(alpha)? };
    match beta.to_complex() {
        (0.0, 0.0) => {
            let dims = crate::op::broadcast_dims(x.dims(), y.dims())?;
            super::pointwise::independent_of(x, y.expand_dims(&dims)?)
        }
        (1.0, 0.0) => x.add(&y),
        _ => x.mul_scalar(beta)?.add(&y),
    }
}

fn baddbmm(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    // Spread to the product's sizes before these are known to be sizes of matrices, as in PyTorch.
    let size =
        |t: &Tensor, d: i64| -> Result<i64> { Ok(t.dims()[crate::op::normalize_dim(d, t.dims().len())?] as i64) };
    let x = match a.dims().len() {
        0 => x.clone(),
        _ => x.expand(&[size(a, 0)?, size(a, 1)?, size(b, 2)?])?,
    };
    check_batches(a, b)?;
    blend_dot(&x, a, b, beta, alpha)
}

fn addmm(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
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
    let fits = crate::op::broadcast_dims(x.dims(), &want).is_ok_and(|d| d == want);
    if !fits {
        let d = x.dims();
        let i =
            (0..d.len()).rev().find(|&i| d[i] != 1 && want.get(i + want.len() - d.len()) != Some(&d[i])).unwrap_or(0);
        let j = (i + want.len()).saturating_sub(d.len());
        return Err(Error::runtime(format!(
            "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {j}.  Target sizes: {want}.  Tensor sizes: {d}",
            want[j], d[i]
        )));
    }
    blend_dot(x, a, b, beta, alpha)
}

/// `beta * x + alpha * sum(a @ b)` over the batches.
fn addbmm(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    check_batches(a, b)?;
    blend_of_dot(x, a, b, beta, alpha, |y| super::reduce::sum_mask(&y, 1)?.to_dtype(y.dtype()))
}

/// `beta * x + alpha * (a @ v)`.
fn addmv(x: &Tensor, a: &Tensor, v: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
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
    blend_of_dot(x, a, &v.unsqueeze(1)?, beta, alpha, |y| y.squeeze(1))
}

/// `beta * x + alpha * (a outer b)`.
fn addr(x: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    for (t, name) in [(a, "vec1"), (b, "vec2")] {
        if t.dims().len() != 1 {
            return Err(Error::runtime(format!("addr: Expected 1-D argument {name}, but got {}-D", t.dims().len())));
        }
    }
    blend(x, a.outer(b)?, beta, alpha)
}

/// What is added to is rounded once.
const ROUNDED: &[DType] = &[DType::F64, DType::BF16, DType::F16];

macro_rules! product_row {
    ($schema:literal, $a:ident => $call:expr, $samples:expr) => {
        Row::new($schema, Tier::Composed, |$a| Ok($call.into()), $samples)
    };
}

/// Rows of the matmul family.
pub const ROWS: &[Row] = &[
    product_row!("matmul(Tensor self, Tensor other) -> Tensor", a => a.tensor(0)?.matmul(a.tensor(1)?)?, samples!([t(&[2, 3]), t(&[3, 4])], [t(&[3]), t(&[3])], [t(&[2, 3]), t(&[3])], [t(&[3]), t(&[3, 2])], [t(&[2, 1, 2, 3]), t(&[4, 3, 2])], [t(&[2, 2, 3]), t(&[3, 2])], [t(&[2, 2, 3]), t(&[3])], [t(&[2, 0]), t(&[0, 3])])),
    product_row!("mm(Tensor self, Tensor mat2) -> Tensor", a => a.tensor(0)?.mm(a.tensor(1)?)?, samples!([t(&[2, 3]), t(&[3, 4])], [crate::schema::SampleArg::Transposed(vec![2, 3], crate::schema::Fill::Normal), t(&[3, 4])])),
    product_row!("bmm(Tensor self, Tensor mat2) -> Tensor", a => a.tensor(0)?.bmm(a.tensor(1)?)?, samples!([t(&[2, 2, 3]), t(&[2, 3, 4])])),
    product_row!("mv(Tensor self, Tensor vec) -> Tensor", a => a.tensor(0)?.mv(a.tensor(1)?)?, samples!([t(&[2, 3]), t(&[3])])),
    product_row!("dot(Tensor self, Tensor tensor) -> Tensor", a => a.tensor(0)?.dot(a.tensor(1)?)?, samples!([t(&[3]), t(&[3])])),
    product_row!("outer(Tensor self, Tensor vec2) -> Tensor", a => a.tensor(0)?.outer(a.tensor(1)?)?, samples!([t(&[3]), t(&[2])])),
    product_row!("ger(Tensor self, Tensor vec2) -> Tensor", a => a.tensor(0)?.outer(a.tensor(1)?)?, samples!([t(&[3]), t(&[2])])),
    product_row!("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", a => addmm(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)?, || vec![
        Sample::new(vec![t(&[4]), t(&[2, 3]), t(&[3, 4])]).dtypes(ROUNDED),
        Sample::new(vec![t(&[2, 4]), t(&[2, 3]), t(&[3, 4]), n(0.5), n(2)]).dtypes(ROUNDED),
    ]).inplace(),
    product_row!("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", a => addmv(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)?, samples!([t(&[2]), t(&[2, 3]), t(&[3]), n(0.5), n(2)])).inplace(),
    product_row!("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", a => addr(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)?, samples!([t(&[2, 3]), t(&[2]), t(&[3]), n(0.5), n(2)])).inplace(),
    product_row!("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", a => baddbmm(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)?, samples!([t(&[2, 2, 4]), t(&[2, 2, 3]), t(&[2, 3, 4]), n(0.5), n(2)])).inplace(),
    product_row!("addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", a => addbmm(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)?, samples!([t(&[2, 4]), t(&[2, 2, 3]), t(&[2, 3, 4]), n(0.5), n(2)])).inplace(),
    Row::new("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", Tier::Composed, |a| Ok(bilinear(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.opt_tensor(3)?)?.into()), samples!([t(&[2, 3]), t(&[2, 4]), t(&[5, 3, 4]), t(&[5])], [t(&[2, 2, 3]), t(&[2, 2, 2]), t(&[3, 3, 2])], [t(&[3]), t(&[2]), t(&[3, 3, 2])])).no_out().scope(Scope::Function),
    Row::new("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", Tier::Fused, |a| Ok(linear(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?)?.into()), samples!([t(&[2, 3]), t(&[4, 3]), t(&[4])], [t(&[2, 2, 3]), t(&[4, 3])], [t(&[3]), t(&[4, 3]), t(&[4])], [t(&[2, 3]), t(&[4, 3]), t(&[1])])).scope(Scope::Nn),
];
