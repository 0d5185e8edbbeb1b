//! Complex numbers: views as pairs of real numbers and back (`AsReal`, `AsComplex`), views of conjugates (`Conj`) and
//! negatives (`Negative`), and functions composed of them.
//!
//! Gradients follow PyTorch's convention: the gradient of a real loss `L` by `z = x + iy` is `dL/dx + i dL/dy`, so a
//! holomorphic `f` passes on `g conj(f'(z))`. For a real input of a complex op, the tape takes the real part of the
//! gradient.

use crate::axes::Axes;
use crate::op::{Func, Layout, Prim, Value, ViewOp};
use crate::ops::pointwise::{BinaryKind, UnaryKind, as_tensor, binary, select, unary, unary_};
use crate::policy::{Policies, Policy};
use crate::schema::{Operand, OutDType, Ret, Row, Sample, SampleArg, Scope, Tier, messages, positive, t};
pub(crate) use crate::types::compute::unsupported;
use crate::{DType, Dims, Error, ErrorKind, Meta, Result, Scalar, Tensor, dispatch};

/// A view of a complex tensor as real numbers, with a last dimension of real and imaginary part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AsReal;

impl ViewOp for AsReal {
    const NAME: &'static str = "view_as_real";
    fn layout(&self, x: &Layout) -> Result<Layout> {
        Dims::check_rank(x.dims.len() + 1)?;
        let mut l = Layout { dims: x.dims, strides: x.strides.iter().map(|s| 2 * s).collect(), offset: 2 * x.offset };
        l.dims.push(2);
        l.strides.push(1);
        Ok(l)
    }
    fn dtype(&self, x: DType) -> DType {
        x.to_real()
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... -> ... _", x, y).linear(&[0b1])
    }
    fn lower(&self, f: &mut Func, x: &Value, y: &Meta) -> Value {
        let mut dims = y.dims;
        let last = dims.len() - 1;
        dims.set(last, 1);
        let parts = ["stablehlo.real", "stablehlo.imag"].map(|op| {
            let part = f.unary(op, x);
            f.reshape(&part, &dims)
        });
        f.concatenate(&parts, last)
    }
    fn vjp(&self, _: &Meta, g: &Tensor) -> Result<Tensor> {
        joined(g)
    }
    fn write_back(&self, _: &Tensor, y: &Tensor) -> Result<Tensor> {
        joined(y)
    }
}

/// Pairs of real numbers as complex numbers. They are copied first if they are not pairs in memory.
fn joined(x: &Tensor) -> Result<Tensor> {
    let x = x.contiguous()?;
    dispatch::call_view(Prim::AsComplex(AsComplex), &x)
}

/// A view of a real tensor, whose last dimension holds pairs, as complex numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AsComplex;

impl ViewOp for AsComplex {
    const NAME: &'static str = "view_as_complex";
    fn layout(&self, x: &Layout) -> Result<Layout> {
        let last = x.dims.len().wrapping_sub(1);
        if x.dims.is_empty() {
            return Err(Error::runtime("Input tensor must have one or more dimensions"));
        }
        if x.dims[last] != 2 {
            return Err(Error::runtime("Tensor must have a last dimension of size 2"));
        }
        if x.strides[last] != 1 {
            return Err(Error::runtime("Tensor must have a last dimension with stride 1"));
        }
        if (0..last).any(|d| x.dims[d] != 1 && !x.strides[d].is_multiple_of(2)) {
            return Err(Error::runtime("Tensor must have a stride divisible by 2 for all but last dimension"));
        }
        if !x.offset.is_multiple_of(2) {
            return Err(Error::runtime("Tensor must have a storage_offset divisible by 2"));
        }
        let half = |d: &Dims| d[..last].iter().map(|s| s / 2).collect();
        Ok(Layout { dims: Dims::new(&x.dims[..last]), strides: half(&x.strides), offset: x.offset / 2 })
    }
    fn dtype(&self, x: DType) -> DType {
        x.to_complex().unwrap_or(x)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... _ -> ...", x, y).linear(&[0b1])
    }
    fn lower(&self, f: &mut Func, x: &Value, y: &Meta) -> Value {
        let last = x.rank() - 1;
        let parts = [0, 1].map(|i| {
            let (mut start, mut end) = (vec![0; last + 1], x.shape().to_vec());
            (start[last], end[last]) = (i, i + 1);
            let part = f.slice(x, &start, &end, &vec![1; last + 1]);
            f.reshape(&part, &y.dims)
        });
        f.binary("stablehlo.complex", &parts[0], &parts[1])
    }
    fn vjp(&self, _: &Meta, g: &Tensor) -> Result<Tensor> {
        pairs(g)
    }
    fn write_back(&self, _: &Tensor, y: &Tensor) -> Result<Tensor> {
        pairs(y)
    }
}

/// Complex numbers as pairs. They are copied first if memory holds their conjugates.
fn pairs(x: &Tensor) -> Result<Tensor> {
    let x = if x.is_lazy() { x.copy()? } else { x.clone() };
    dispatch::call_view(Prim::AsReal(AsReal), &x)
}

/// A view of the conjugates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Conj;

impl ViewOp for Conj {
    const NAME: &'static str = "_conj";
    fn layout(&self, x: &Layout) -> Result<Layout> {
        Ok(*x)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b1])
    }
    fn lower(&self, f: &mut Func, x: &Value, _: &Meta) -> Value {
        lower_conj(f, x)
    }
    fn vjp(&self, _: &Meta, g: &Tensor) -> Result<Tensor> {
        g.conj()
    }
    fn write_back(&self, _: &Tensor, y: &Tensor) -> Result<Tensor> {
        y.conj()
    }
}

/// The conjugates of a complex value.
pub(crate) fn lower_conj(f: &mut Func, x: &Value) -> Value {
    let (re, im) = (f.unary("stablehlo.real", x), f.unary("stablehlo.imag", x));
    let im = f.unary("stablehlo.negate", &im);
    f.binary("stablehlo.complex", &re, &im)
}

/// A view of the negatives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Negative;

impl ViewOp for Negative {
    const NAME: &'static str = "_neg_view";
    fn layout(&self, x: &Layout) -> Result<Layout> {
        Ok(*x)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b1])
    }
    fn lower(&self, f: &mut Func, x: &Value, _: &Meta) -> Value {
        f.unary("stablehlo.negate", x)
    }
    fn vjp(&self, _: &Meta, g: &Tensor) -> Result<Tensor> {
        g.neg()
    }
    fn write_back(&self, _: &Tensor, y: &Tensor) -> Result<Tensor> {
        y.neg()
    }
}

impl Tensor {
    /// A view as pairs of real numbers, real part first.
    ///
    /// # Errors
    /// `Type` unless complex, `Runtime` for a view of conjugates.
    pub fn view_as_real(&self) -> Result<Tensor> {
        if !self.dtype().is_complex() {
            return Err(Error::type_error("view_as_real is only supported for complex tensors"));
        }
        if self.is_conj() {
            return Err(Error::runtime(
                "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you \
                can view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT \
                alias the original.",
            ));
        }
        dispatch::call_view(Prim::AsReal(AsReal), self)
    }
    /// A view of pairs of real numbers as complex ones.
    ///
    /// # Errors
    /// `NotImplemented` unless `float32` or `float64`, `Runtime` when the last dimension holds no pairs.
    pub fn view_as_complex(&self) -> Result<Tensor> {
        if !matches!(self.dtype(), DType::F32 | DType::F64) {
            return Err(Error::not_implemented(format!(
                "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar \
                type: {}",
                self.dtype().scalar_type()
            )));
        }
        dispatch::call_view(Prim::AsComplex(AsComplex), self)
    }
    /// A view of the real parts; a real tensor itself.
    ///
    /// # Errors
    /// The errors of the views that it consists of.
    pub fn real(&self) -> Result<Tensor> {
        if !self.dtype().is_complex() {
            return Ok(self.clone());
        }
        let x = if self.is_conj() { self.conj()? } else { self.clone() };
        x.view_as_real()?.select(self.dims().len() as i64, 0)
    }
    /// A view of the imaginary parts.
    ///
    /// # Errors
    /// `Type` unless complex.
    pub fn imag(&self) -> Result<Tensor> {
        if !self.dtype().is_complex() {
            return Err(Error::type_error("imag is not implemented for tensors with non-complex dtypes."));
        }
        if self.is_conj() {
            return self.conj()?.view_as_real()?.select(self.dims().len() as i64, 1)?.negative_view();
        }
        self.view_as_real()?.select(self.dims().len() as i64, 1)
    }
    /// A view of the conjugates; a real tensor itself.
    ///
    /// # Errors
    /// It never fails.
    pub fn conj(&self) -> Result<Tensor> {
        if !self.dtype().is_complex() {
            return Ok(self.clone());
        }
        dispatch::call_view(Prim::Conj(Conj), self)
    }
    /// A view of the negatives.
    ///
    /// # Errors
    /// It never fails.
    pub fn negative_view(&self) -> Result<Tensor> {
        dispatch::call_view(Prim::Negative(Negative), self)
    }
    /// The conjugates in new memory; a real tensor itself.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn conj_physical(&self) -> Result<Tensor> {
        if !self.dtype().is_complex() {
            return Ok(self.clone());
        }
        unary(UnaryKind::Conj, self)
    }
    /// A tensor whose memory holds the elements, not their conjugates: the tensor itself if that is true of it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn resolve_conj(&self) -> Result<Tensor> {
        if self.is_conj() { self.copy() } else { Ok(self.clone()) }
    }
    /// A tensor whose memory holds the elements, not their negatives: the tensor itself if that is true of it.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn resolve_neg(&self) -> Result<Tensor> {
        if self.is_neg() { self.copy() } else { Ok(self.clone()) }
    }
    /// The angle in the complex plane; for a real number, 0 or pi.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn angle(&self) -> Result<Tensor> {
        unary(UnaryKind::Angle, self)
    }
    /// `z / |z|`, and zero for zero; for a real number, its sign.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn sgn(&self) -> Result<Tensor> {
        if self.dtype().is_complex() { unary(UnaryKind::Sgn, self) } else { self.sign() }
    }
    /// The conjugate transpose of matrices.
    ///
    /// # Errors
    /// `Runtime` for a vector.
    pub fn adjoint(&self) -> Result<Tensor> {
        match self.dims().len() {
            0 => Err(Error::runtime(
                "tensor.adjoint() is only supported on matrices or batches of matrices. Got 0-D tensor.",
            )),
            1 => Err(Error::runtime(
                "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.",
            )),
            _ => self.transpose(-2, -1)?.conj(),
        }
    }
    /// `sum(conj(a) b)` of two vectors.
    ///
    /// # Errors
    /// The errors of [`Tensor::dot`].
    pub fn vdot(&self, other: &Tensor) -> Result<Tensor> {
        self.conj()?.dot(other)
    }
}

/// Two real tensors of one dtype, the operands of `complex` and `polar`.
fn check_parts(a: &Tensor, b: &Tensor) -> Result<()> {
    let real = |t: &Tensor| matches!(t.dtype(), DType::F16 | DType::F32 | DType::F64);
    if !real(a) || !real(b) {
        return Err(Error::not_implemented(format!(
            "Expected both inputs to be Half, Float or Double tensors but got {} and {}",
            a.dtype().scalar_type(),
            b.dtype().scalar_type()
        )));
    }
    if a.dtype() != b.dtype() {
        return Err(Error::runtime(format!(
            "Expected object of scalar type {} but got scalar type {} for second argument",
            a.dtype().scalar_type(),
            b.dtype().scalar_type()
        )));
    }
    if a.dtype() == DType::F16 {
        return Err(Error::not_implemented("complex numbers of float16 are not supported"));
    }
    Ok(())
}

/// Complex numbers from real and imaginary parts.
///
/// # Errors
/// `NotImplemented` unless both are `float32` or `float64`, `Runtime` when they differ.
pub fn complex(re: &Tensor, im: &Tensor) -> Result<Tensor> {
    check_parts(re, im)?;
    dispatch::call(Prim::Binary(crate::ops::pointwise::Binary(BinaryKind::Complex)), &[re, im])
}

/// Complex numbers from moduli and angles.
///
/// # Errors
/// The errors of [`complex`].
pub fn polar(abs: &Tensor, angle: &Tensor) -> Result<Tensor> {
    check_parts(abs, angle)?;
    complex(&binary(BinaryKind::Mul, abs, &angle.cos()?)?, &binary(BinaryKind::Mul, abs, &angle.sin()?)?)
}

/// Apply a function of a real tensor to the real and to the imaginary parts.
///
/// # Errors
/// The errors of the function.
pub(crate) fn by_parts(x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    complex(&f(&x.real()?)?, &f(&x.imag()?)?)
}

/// Refuse complex numbers with the given kind of error and words.
///
/// # Errors
/// When `x` is complex.
pub(crate) fn refuse(x: &Tensor, kind: ErrorKind, message: &str) -> Result<()> {
    if x.dtype().is_complex() { Err(Error::new(kind, message)) } else { Ok(()) }
}

/// Whether the imaginary part of each element is zero.
fn isreal(x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return Tensor::full_meta(&x.meta().with_dtype(DType::Bool), Scalar::Bool(true));
    }
    x.imag()?.eq_scalar(0)
}

/// Gradient of `sgn`: the part of `g` that is perpendicular to `z`, divided by the length of `z`.
pub(crate) fn sgn_vjp(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    let (abs, sgn) = (x.abs()?, x.sgn()?);
    let along = g.mul(&sgn.conj()?)?.real()?.mul(&sgn)?;
    let d = g.sub(&along)?.div(&abs)?;
    select(&abs.eq_scalar(0)?, &as_tensor(Operand::Scalar(Scalar::Int(0)), d.dtype())?, &d)
}

/// Gradient of `angle`: turned by a right angle, and divided by the length.
pub(crate) fn angle_vjp(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return Tensor::zeros_like_meta(g.meta());
    }
    let square = x.abs()?.square()?;
    let d = x.mul(&g.div(&square)?)?.mul_scalar((0.0, 1.0))?;
    select(&square.eq_scalar(0)?, &as_tensor(Operand::Scalar(Scalar::Int(0)), d.dtype())?, &d)
}

fn pair() -> Vec<Sample> {
    vec![Sample::new(vec![t(&[2, 3]), t(&[3])]).dtypes(&[DType::F64])]
}

fn of_complex() -> Vec<Sample> {
    let mut v = only_complex();
    v.push(Sample::new(vec![t(&[2, 3])]));
    v
}

/// Samples of complex tensors only.
fn only_complex() -> Vec<Sample> {
    let transposed = SampleArg::Transposed(vec![2, 3], crate::schema::Fill::Normal);
    [t(&[2, 3]), transposed].map(|x| Sample::new(vec![x]).complex()).into()
}

/// Rows of the functions of complex numbers.
pub const ROWS: &[Row] = &[
    Row::new(
        "complex(Tensor real, Tensor imag) -> Tensor",
        Tier::Prim,
        |a| Ok(complex(a.tensor(0)?, a.tensor(1)?)?.into()),
        pair,
    )
    .doc(
        "Return complex numbers with the real parts `real` and the imaginary parts `imag`, which broadcast. Both \
         must be `float32`, which gives `complex64`, or `float64`, which gives `complex128`.",
    )
    .scope(Scope::Function)
    .out_dtype(OutDType::OfResult(messages::expected_object)),
    Row::new(
        "polar(Tensor abs, Tensor angle) -> Tensor",
        Tier::Composed,
        |a| Ok(polar(a.tensor(0)?, a.tensor(1)?)?.into()),
        || vec![Sample::new(vec![positive(&[2, 3]), t(&[2, 3])])],
    )
    .doc(
        "Return the complex numbers `abs * (cos(angle) + i sin(angle))`, with `angle` in radians. The operands \
         broadcast. Both must be `float32`, which gives `complex64`, or `float64`, which gives `complex128`.",
    )
    .scope(Scope::Function)
    .out_dtype(OutDType::OfResult(messages::expected_object))
    .autocast(Policies::cpu(Policy::Full)),
    Row::new("real(Tensor(a) self) -> Tensor(a)", Tier::Composed, |a| Ok(a.tensor(0)?.real()?.into()), of_complex)
        .doc("Return a view of the real parts of `input`. A real tensor is returned itself.")
        .scope(Scope::Function)
        .no_out(),
    Row::new("imag(Tensor(a) self) -> Tensor(a)", Tier::Composed, |a| Ok(a.tensor(0)?.imag()?.into()), only_complex)
        .doc("Return a view of the imaginary parts of `input`. Real tensors are refused.")
        .scope(Scope::Function)
        .no_out(),
    Row::new(
        "view_as_real(Tensor(a) self) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.view_as_real()?.into()),
        only_complex,
    )
    .doc(
        "Return a view of the complex `input` as real numbers, with a last dimension of size 2 for the real and the \
         imaginary part. Real tensors are refused, and so are views of conjugates, which `torch.resolve_conj` makes \
         plain.",
    )
    .scope(Scope::Function)
    .no_out(),
    Row::new(
        "view_as_complex(Tensor(a) self) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.view_as_complex()?.into()),
        || vec![Sample::new(vec![t(&[3, 2])])],
    )
    .doc(
        "Return a view of `input` as complex numbers. Its last dimension has the size 2 and the stride 1, holds the \
         real and the imaginary part, and goes away. `input` must be `float32` or `float64`.",
    )
    .scope(Scope::Function)
    .no_out()
    .autocast(Policies::cpu(Policy::Full)),
    Row::new("conj(Tensor(a) self) -> Tensor(a)", Tier::Prim, |a| Ok(a.tensor(0)?.conj()?.into()), of_complex)
        .doc(
            "Return a view of the complex conjugates of `input`; nothing is computed until the elements are read. A \
         real tensor is returned itself.",
        )
        .no_out(),
    Row::new("_conj(Tensor(a) self) -> Tensor(a)", Tier::Prim, |a| Ok(a.tensor(0)?.conj()?.into()), of_complex)
        .doc("Return a view of the complex conjugates of `input`, as `torch.conj` does.")
        .no_out(),
    Row::new(
        "_neg_view(Tensor(a) self) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.negative_view()?.into()),
        of_complex,
    )
    .doc("Return a view of `-input`; nothing is computed until the elements are read.")
    .no_out(),
    Row::new(
        "conj_physical(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.conj_physical()?.into()),
        only_complex,
    )
    .doc("Return the complex conjugates of `input` in new memory. A real tensor is returned itself.")
    .inplace_by(|a| {
        let x = a.tensor(0)?;
        if x.dtype().is_complex() {
            unary_(UnaryKind::Conj, x)?;
        }
        Ok(Ret::Tensor(x.clone()))
    })
    .out_dtype(OutDType::OfInput(messages::found))
    .in_place_function(),
    Row::new(
        "resolve_conj(Tensor(a) self) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.resolve_conj()?.into()),
        of_complex,
    )
    .doc(
        "Return `input` itself, or a copy if it is a view of conjugates. The memory of the result holds the \
         elements as they are.",
    )
    .no_out(),
    Row::new(
        "resolve_neg(Tensor(a) self) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.resolve_neg()?.into()),
        of_complex,
    )
    .doc(
        "Return `input` itself, or a copy if it is a view of negatives. The memory of the result holds the elements \
         as they are.",
    )
    .no_out(),
    Row::new(
        "adjoint(Tensor(a) self) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.adjoint()?.into()),
        of_complex,
    )
    .doc(
        "Return a view of `input` with its last two dimensions swapped and its elements conjugated. Fewer than 2 \
         dimensions are refused.",
    )
    .no_out(),
    Row::new(
        "angle(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.angle()?.into()),
        || vec![Sample::new(vec![t(&[2, 3])])],
    )
    .doc(
        "Return the angle of each element of `input` in the complex plane, in radians. For real numbers it is `pi` \
         for negative ones and 0 for the others, and NaN stays NaN. Integers and `bool` are computed in the default \
         floating-point dtype.",
    ),
    Row::new(
        "sgn(Tensor self) -> Tensor",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.sgn()?.into()),
        || vec![Sample::new(vec![t(&[2, 3])]).dtypes(&[DType::I64])],
    )
    .doc(
        "Return `z / |z|` for each complex element `z` of `input`, and 0 at zero. For real tensors it is \
         `torch.sign`.",
    )
    .inplace()
    .out_dtype(OutDType::OfInput(messages::found)),
    Row::new(
        "isreal(Tensor self) -> Tensor",
        Tier::Composed,
        |a| Ok(isreal(a.tensor(0)?)?.into()),
        || of_complex().into_iter().map(Sample::no_gradient).collect(),
    )
    .doc(
        "Return `True` where an element of `input` has no imaginary part, as `bool`. Real tensors give `True` \
         everywhere.",
    )
    .no_out(),
    Row::new(
        "vdot(Tensor self, Tensor other) -> Tensor",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.vdot(a.tensor(1)?)?.into()),
        || vec![Sample::new(vec![t(&[4]), t(&[4])])],
    )
    .doc(
        "Return the sum of `conj(input) * other` over two vectors of the same length, as a 0-d tensor. For real \
         vectors it is `torch.dot`.",
    )
    .autocast(Policies::both(Policy::Widest)),
];
