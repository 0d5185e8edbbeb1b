//! The matmul family. One primitive, `Dot`, is a batched contraction; all others are composed of it.

mod blend;
mod grouped;
mod linear;
mod scaled;
mod tensordot;

use crate::axes::{Axes, Combine};
use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, Operand, misfit};
use crate::op::{Attribute, Attributes, Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values, same_device};
use crate::ops::pointwise::kernel_error;
use crate::policy::{Policies, Policy};
use crate::schema::{Aliasing, Deprecated, Fill, OutDType, Row, Sample, SampleArg, Scope, Tier, ints, messages, n, t};
use crate::types::compute::{compute_dtype, narrowed};
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch, samples};
pub use blend::Addmm;
use blend::{addbmm, addmm, addmv, addr, baddbmm};
pub use grouped::Grouped;
use grouped::grouped_mm;
pub(crate) use linear::LinearCall;
pub use linear::{Linear, bilinear, linear};
use scaled::scaled_mm;
use smallvec::smallvec;
use std::cell::Cell;
use tensordot::{inner, tensordot};
use torchtpu_kernels::{View, ViewMut};

/// `y[b.., i, j] = sum_k a[b.., i, k] * b[b.., k, j]`, where either operand may be stored transposed.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | a | `[b.., m, k]`, or `[b.., k, m]` with `ta` | any, the same for both |
/// | b | `[b.., k, n]`, or `[b.., n, k]` with `tb` | |
/// | y | `[b.., m, n]` | |
///
/// C1: equal leading sizes. C2: equal `k`. C3: equal dtypes. Floats narrower than `f32` accumulate in `f32`, and are
/// rounded after the sum, or not at all if `wide`: then the result is `f32`. `k = 0` gives zeros. Transposition is an
/// attribute, so that a weight stored as `[out, in]` is contracted in place. An explicit transpose before a one-row
/// product copies the weight on XLA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dot {
    /// Whether `a` is stored with its last two dimensions swapped.
    pub ta: bool,
    /// Whether `b` is stored with its last two dimensions swapped.
    pub tb: bool,
    /// Whether the sums of 16-bit floats are returned in `f32`.
    pub wide: bool,
    /// Whether the `f32` operands were widened from 16-bit floats, so that an accelerator need not multiply more
    /// digits.
    pub of_narrow: bool,
}

thread_local! {
    static OF_NARROW: Cell<bool> = const { Cell::new(false) };
    static WIDE: Cell<bool> = const { Cell::new(false) };
}

/// Run `f` with a flag set.
fn with_flag<R>(flag: &'static std::thread::LocalKey<Cell<bool>>, value: bool, f: impl FnOnce() -> R) -> R {
    struct Restore(&'static std::thread::LocalKey<Cell<bool>>, bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _restore = Restore(flag, flag.replace(value));
    f()
}

/// Run `f`, whose products of 16-bit floats return their sums in `f32`.
pub(super) fn with_wide_sums<R>(f: impl FnOnce() -> R) -> R {
    with_flag(&WIDE, true, f)
}

/// Run `f`, which widens operands of `dtype`. If `dtype` is a 16-bit float, its products ask accelerators for no more
/// precision than those of 16-bit floats.
pub(super) fn with_products_of<R>(dtype: DType, f: impl FnOnce() -> R) -> R {
    with_flag(&OF_NARROW, dtype.is_half(), f)
}

impl Dot {
    fn new(ta: bool, tb: bool) -> Dot {
        Dot { ta, tb, wide: WIDE.get(), of_narrow: OF_NARROW.get() }
    }
}

pub(crate) fn swap_last(d: &Dims) -> Dims {
    let mut d = *d;
    let n = d.len();
    d.edit(|d| d.swap(n - 2, n - 1));
    d
}

fields! {
    // The dtype of the result says whether it is wide.
    Dot { ta, tb; wide: false, of_narrow: false };
}

impl KernelCall for Dot {
    fn name() -> &'static str {
        "matmul"
    }
    fn takes_windows(&self, i: usize) -> bool {
        i < 2
    }
    fn layout(&self, i: usize, x: &[Operand<'_>]) -> (Dims, Dims) {
        match [self.ta, self.tb].get(i) {
            Some(true) => (swap_last(&x[i].sizes), swap_last(&x[i].strides)),
            _ => (x[i].sizes, x[i].strides),
        }
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([a, b], [y]) = (x, y) else { return Err(misfit(self)) };
        torchtpu_kernels::matmul::matmul(a, b, y).map_err(|e| e.to_string())
    }
}

impl Op for Dot {
    fn attributes(&self) -> Attributes {
        vec![("ta", Attribute::Bool(self.ta)), ("tb", Attribute::Bool(self.tb))]
    }
    const NAME: &'static str = "matmul";
    const FACTS: Facts = Facts { autocast: Policies::both(Policy::Lower), ..Facts::NONE };
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
                a.dtype().c_name(),
                b.dtype().c_name()
            ))); // C3
        }
        if a.dtype() == DType::Bool {
            return Err(super::complex::unsupported(if r > 2 { "bmm" } else { "addmm_impl_cpu_" }, a.dtype()));
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
        dims.set(r - 1, db[r - 1]);
        let dtype = if self.wide { compute_dtype(a.dtype()) } else { a.dtype() };
        Ok(Meta { dims, dtype, place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let (a, b) = (if self.ta { "... k m" } else { "... m k" }, if self.tb { "... n k" } else { "... k n" });
        Axes::parse(&format!("{a}, {b} -> ... m n"), x, y).reduces("k", Combine::Sum).linear(&[0b01, 0b10])
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
        if kernel_call::is_profitable(f, x[0].element(), y[0].dims.numel() * x[0].shape()[ca]) {
            return self.call_kernel(f, [&x[0], &x[1]], y);
        }
        let e = crate::meta::element_type(y[0].dtype);
        let precision = (self.of_narrow && f.profile().multiplies_in_passes).then_some("DEFAULT");
        smallvec![f.dot_general(&x[0], &x[1], (&batch, &batch), (&[ca], &[cb]), e, precision)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let dot = |a: &Tensor, ta: bool, b: &Tensor, tb: bool| {
            dispatch::call(Prim::Dot(Dot { of_narrow: self.of_narrow, ..Dot::new(ta, tb) }), &[a, b])
        };
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
/// A product of truth values, where one factor is empty. PyTorch refuses other products of truth values.
fn of_no_bools(a: &Tensor, b: &Tensor, product: impl Fn(&Tensor, &Tensor) -> Result<Tensor>) -> Option<Result<Tensor>> {
    let is_empty = a.dtype() == DType::Bool && b.dtype() == DType::Bool && (a.numel() == 0 || b.numel() == 0);
    let number = |x: &Tensor| x.to_dtype(DType::U8);
    is_empty.then(|| product(&number(a)?, &number(b)?)?.to_dtype(DType::Bool))
}

fn dot(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if let Some(y) = of_no_bools(a, b, dot) {
        return y;
    }
    dispatch::call(Prim::Dot(Dot::new(false, false)), &[a, b])
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
            // With one matrix for all, fold the leading dimensions into rows.
            let rows = da[..na - 1].iter().product();
            let flat = a2.reshape_dims(Dims::new(&[rows, da[na - 1]]))?;
            let y = flat.mm(&b2)?;
            let mut dims = da;
            dims.set(na - 1, db[1]);
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
                "inconsistent tensor size, expected tensor [{}] and src [{}] to have the same number of elements, but \
                got {} and {} elements respectively",
                self.numel(),
                other.numel(),
                self.numel(),
                other.numel()
            )));
        }
        if self.dtype() == DType::Bool {
            return Err(crate::ops::complex::unsupported("dot", self.dtype()));
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

/// An op of its own adds 16-bit floats. The last dtype is exact.
const ROUNDED: &[DType] = &[DType::F64, DType::BF16, DType::F16];

macro_rules! product_row {
    ($schema:literal, $a:ident => $call:expr, $samples:expr) => {
        Row::new($schema, Tier::Composed, |$a| Ok($call.into()), $samples)
    };
}

/// Rows of the matmul family.
pub const ROWS: &[Row] = &[
    product_row!("matmul(Tensor self, Tensor other) -> Tensor", a => a.tensor(0)?.matmul(a.tensor(1)?)?,
        samples!([t(&[2, 3]), t(&[3, 4])], [t(&[3]), t(&[3])], [t(&[2, 3]), t(&[3])], [t(&[3]), t(&[3, 2])],
            [t(&[2, 1, 2, 3]), t(&[4, 3, 2])], [t(&[2, 2, 3]), t(&[3, 2])], [t(&[2, 2, 3]), t(&[3])],
            [t(&[2, 0]), t(&[0, 3])]))
    .doc(
        "Return the product of two matrices, vectors or batches of matrices: `(..., n, k)` and `(..., k, m)` give \
         `(..., n, m)`. A vector is a row on the left and a column on the right, and the result lacks its dimension, \
         so two vectors give their inner product without dimensions. The leading dimensions broadcast. Both operands \
         have one dtype, which is not `bool`. 16-bit floats are summed in `float32`, and `k = 0` gives zeros.",
    )
    .aliases(&["linalg_matmul"])
    .autocast(Policies::both(Policy::Lower)),
    product_row!("mm(Tensor self, Tensor mat2) -> Tensor", a => a.tensor(0)?.mm(a.tensor(1)?)?,
        samples!([t(&[2, 3]), t(&[3, 4])], [SampleArg::Transposed(vec![2, 3], Fill::Normal), t(&[3, 4])]))
    .doc(
        "Return the product of the matrices `input` `(n, k)` and `mat2` `(k, m)`, of shape `(n, m)`. Nothing \
         broadcasts, and both operands have one dtype. `torch.matmul` takes vectors and batches too.",
    )
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .autocast(Policies::both(Policy::Lower)),
    product_row!("bmm(Tensor self, Tensor mat2) -> Tensor", a => a.tensor(0)?.bmm(a.tensor(1)?)?,
        samples!([t(&[2, 2, 3]), t(&[2, 3, 4])]))
    .doc(
        "Return the products of the matrices of two batches: `input` `(b, n, k)` and `mat2` `(b, k, m)` give `(b, n, \
         m)`. The batches do not broadcast, and both operands have one dtype.",
    )
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .autocast(Policies::both(Policy::Lower)),
    product_row!("mv(Tensor self, Tensor vec) -> Tensor", a => a.tensor(0)?.mv(a.tensor(1)?)?,
        samples!([t(&[2, 3]), t(&[3])]))
    .doc(
        "Return the product of the matrix `input` `(n, k)` and the vector `vec` `(k,)`, of shape `(n,)`. Both \
         operands have one dtype.",
    )
    .autocast(Policies::each(Policy::Widest, Policy::Lower)),
    product_row!("dot(Tensor self, Tensor tensor) -> Tensor", a => a.tensor(0)?.dot(a.tensor(1)?)?,
        samples!([t(&[3]), t(&[3])]))
    .doc(
        "Return the sum of products of the elements of two vectors of one size and one dtype, as a tensor without \
         dimensions. Complex numbers are not conjugated. Tensors of other ranks raise `RuntimeError`.",
    )
    .autocast(Policies::both(Policy::Widest)),
    product_row!("inner(Tensor self, Tensor other) -> Tensor", a => inner(a.tensor(0)?, a.tensor(1)?)?,
        samples!([t(&[2, 3]), t(&[4, 3])], [t(&[3]), t(&[3])], [t(&[2, 3]), t(&[])], [t(&[2, 0]), t(&[3, 0])]))
    .doc(
        "Return the sums of products over the last dimensions: `(*a, n)` and `(*b, n)` give `(*a, *b)`. Both operands \
         have one dtype. If an operand has no dimensions, the result is the product of the two, as of `torch.mul`.",
    ),
    product_row!("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", a =>
        tensordot(a.tensor(0)?, a.tensor(1)?, a.ints(2)?, a.ints(3)?)?,
        samples!([t(&[2, 3]), t(&[3, 4]), ints(&[1]), ints(&[0])],
            [t(&[2, 3]), t(&[2, 3]), ints(&[0, -1]), ints(&[0, 1])],
            [t(&[2, 3, 4]), t(&[4, 2, 5]), ints(&[2, 0]), ints(&[0, 1])], [t(&[2]), t(&[3]), ints(&[]), ints(&[])],
            [t(&[2, 3]), t(&[1, 4]), ints(&[1]), ints(&[0])]))
    .doc(
        "Return the sums of products over the dimensions `dims_self` of `input` and `dims_other` of `other`, which \
         correspond in order. The result has the other dimensions of `input`, then those of `other`. Both operands \
         have one dtype. A dimension of size 1 broadcasts.",
    )
    .scope(Scope::Aten)
    .out_dtype(OutDType::OfResult(messages::output_tensor)),
    product_row!("outer(Tensor self, Tensor vec2) -> Tensor", a => a.tensor(0)?.outer(a.tensor(1)?)?,
        samples!([t(&[3]), t(&[2])]))
    .doc(
        "Return the products of each element of `input` `(n,)` and each element of `vec2` `(m,)`, of shape `(n, m)`. \
         The dtypes are promoted.",
    ),
    product_row!("ger(Tensor self, Tensor vec2) -> Tensor", a => a.tensor(0)?.outer(a.tensor(1)?)?,
        samples!([t(&[3]), t(&[2])]))
    .doc("Alias of `torch.outer`."),
    product_row!("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", a =>
        addmm(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)?, || vec![
        Sample::new(vec![t(&[4]), t(&[2, 3]), t(&[3, 4])]).dtypes(ROUNDED),
        Sample::new(vec![t(&[2, 4]), t(&[2, 3]), t(&[3, 4]), n(0.5), n(2)]).dtypes(ROUNDED),
    ])
    .doc(
        "Return `beta * input + alpha * (mat1 @ mat2)`, for `mat1` `(n, k)`, `mat2` `(k, m)` and an `input` that \
         broadcasts to `(n, m)`. All operands have one dtype. With `beta = 0`, `input` is ignored, NaN included. \
         16-bit floats are rounded once, at the end. `beta` and `alpha` are truncated for integers.",
    )
    .inplace()
    .reads_before_writing()
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep)
    .deprecated(Deprecated::Products)
    .autocast(Policies::both(Policy::Lower)),
    product_row!("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", a =>
        addmv(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)?,
        samples!([t(&[2]), t(&[2, 3]), t(&[3]), n(0.5), n(2)]))
    .doc(
        "Return `beta * input + alpha * (mat @ vec)`, for `mat` `(n, k)`, `vec` `(k,)` and an `input` of one or `n` \
         elements. All operands have one dtype. With `beta = 0`, `input` is ignored, NaN included.",
    )
    .inplace()
    .reads_before_writing()
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep)
    .deprecated(Deprecated::Products)
    .autocast(Policies::each(Policy::Widest, Policy::Lower))
    .in_place_function(),
    product_row!("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", a =>
        addr(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)?,
        samples!([t(&[2, 3]), t(&[2]), t(&[3]), n(0.5), n(2)]))
    .doc(
        "Return `beta * input + alpha * outer(vec1, vec2)`, for `vec1` `(n,)`, `vec2` `(m,)` and an `input` that \
         broadcasts with `(n, m)`. The dtypes are promoted. With `beta = 0`, the values of `input` are ignored, NaN \
         included.",
    )
    .inplace()
    .deprecated(Deprecated::Products)
    .autocast(Policies::each(Policy::Widest, Policy::Lower)),
    product_row!("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", a =>
        baddbmm(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)?,
        samples!([t(&[2, 2, 4]), t(&[2, 2, 3]), t(&[2, 3, 4]), n(0.5), n(2)]))
    .doc(
        "Return `beta * input + alpha * (batch1 @ batch2)` for each matrix of a batch. `batch1` is `(b, n, k)`, \
         `batch2` `(b, k, m)`, and `input` broadcasts to `(b, n, m)`. All operands have one dtype. With `beta = 0`, \
         `input` is ignored, NaN included.",
    )
    .inplace()
    .reads_before_writing()
    .out_dtype(OutDType::OfInput(messages::expected_out))
    .out_aliasing(Aliasing::InStep)
    .deprecated(Deprecated::Products)
    .autocast(Policies::both(Policy::Lower)),
    product_row!("addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", a =>
        addbmm(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.scalar(3)?, a.scalar(4)?)?,
        samples!([t(&[2, 4]), t(&[2, 2, 3]), t(&[2, 3, 4]), n(0.5), n(2)]))
    .doc(
        "Return `beta * input + alpha * sum(batch1 @ batch2)`, where the sum runs over the `b` matrices of the batch. \
         `batch1` is `(b, n, k)`, `batch2` `(b, k, m)`, and the result has shape `(n, m)`. All operands have one \
         dtype. With `beta = 0`, `input` is ignored, NaN included.",
    )
    .inplace()
    .reads_before_writing()
    .deprecated(Deprecated::Products)
    .autocast(Policies::both(Policy::Lower)),
    Row::new(
        "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
        Tier::Composed,
        |a| Ok(bilinear(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.opt_tensor(3)?)?.into()),
        samples!(
            [t(&[2, 3]), t(&[2, 4]), t(&[5, 3, 4]), t(&[5])],
            [t(&[2, 2, 3]), t(&[2, 2, 2]), t(&[3, 3, 2])],
            [t(&[3]), t(&[2]), t(&[3, 3, 2])]
        ),
    )
    .doc(
        "Return `y` with `y[..., o] = input1[..., i] * weight[o, i, j] * input2[..., j] + bias[o]`, summed over `i` \
         and `j`. `input1` is `(..., n1)`, `input2` `(..., n2)`, `weight` `(n, n1, n2)` and `bias` `(n,)`. The \
         leading sizes of both inputs agree. All operands but `bias` must have one dtype.",
    )
    .no_out()
    .scope(Scope::Function)
    .autocast(Policies::both(Policy::Widest)),
    Row::new(
        "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) \
        -> Tensor",
        Tier::Fused,
        |a| Ok(grouped_mm(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, a.opt_tensor(3)?, a.opt_dtype(4)?)?.into()),
        || {
            // Groups of two places, of one, and of none.
            let ends = || SampleArg::Tensor(vec![3], Fill::Pivots);
            vec![
                Sample::new(vec![t(&[4, 2]), t(&[3, 2, 5]), ends()]).dtypes(ROUNDED),
                Sample::new(vec![t(&[3, 4, 2]), t(&[2, 5]), ends()]).dtypes(ROUNDED),
                Sample::new(vec![t(&[2, 4]), t(&[4, 5]), ends()]).dtypes(ROUNDED),
                Sample::new(vec![t(&[3, 2, 4]), t(&[3, 4, 2])]).dtypes(ROUNDED),
                Sample::new(vec![
                    SampleArg::Transposed(vec![4, 2], Fill::Normal),
                    SampleArg::Transposed(vec![3, 2, 5], Fill::Normal),
                    ends(),
                ]),
                Sample::new(vec![t(&[4, 0]), t(&[3, 0, 5]), ends()]),
            ]
        },
    )
    .doc(
        "Return products of groups of rows or columns with matrices of their own, where `offs`, `int32`, holds the \
         end of each group. Two batches of matrices, without `offs`, are multiplied as by `torch.bmm`.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, \
        Tensor? scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
        Tier::Composed,
        |a| {
            let scales = [a.tensor(2)?, a.tensor(3)?];
            Ok(scaled_mm(a.tensor(0)?, a.tensor(1)?, scales, a.opt_tensor(4)?, a.opt_dtype(6)?)?.into())
        },
        || {
            let of = |dims: &[usize], dtype| SampleArg::Of(dims.to_vec(), Fill::Normal, dtype);
            let scale = |dims: &[usize]| SampleArg::Of(dims.to_vec(), Fill::Positive, DType::F32);
            let tail = |dtype| [SampleArg::Default, SampleArg::DType(dtype)];
            let sample = |args: Vec<SampleArg>, dtype| Sample::new([args, tail(dtype).to_vec()].concat()).no_gradient();
            let (narrow, wide) = (DType::F8E4M3FN, DType::F8E5M2);
            vec![
                sample(
                    vec![of(&[4, 3], narrow), of(&[3, 5], narrow), scale(&[]), scale(&[1]), SampleArg::Default],
                    DType::F32,
                ),
                sample(
                    vec![of(&[4, 3], narrow), of(&[3, 5], wide), scale(&[4, 1]), scale(&[1, 5]), of(&[5], DType::BF16)],
                    DType::BF16,
                ),
                sample(
                    vec![of(&[2, 0], wide), of(&[0, 5], wide), scale(&[]), scale(&[]), of(&[5], DType::F32)],
                    DType::F32,
                ),
            ]
        },
    )
    .doc(
        "Return the product of two matrices of 8-bit floats, each times its scale: one number for a matrix, or one for \
         each row of the first and each column of the second. The result has the dtype `out_dtype`, or that of the \
         first matrix. `scale_result` and `use_fast_accum` change nothing.",
    )
    .scope(Scope::Function),
    Row::new(
        "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
        Tier::Fused,
        |a| Ok(linear(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?)?.into()),
        samples!(
            [t(&[2, 3]), t(&[4, 3]), t(&[4])],
            [t(&[2, 2, 3]), t(&[4, 3])],
            [t(&[3]), t(&[4, 3]), t(&[4])],
            [t(&[2, 3]), t(&[4, 3]), t(&[1])]
        ),
    )
    .doc(
        "Return `input @ weight^T + bias`, for `input` `(..., i)`, `weight` `(o, i)` and `bias` `(o,)`. The result is \
         `(..., o)`. A `weight` of shape `(i,)` gives `(...)`. All operands have one dtype.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::both(Policy::Lower)),
];
