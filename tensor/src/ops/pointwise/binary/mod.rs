//! `Binary{kind}`: functions of two operands, as a node. [`table`] has a row for each. `arithmetic` calls it.

mod gradient;
mod lower;
mod table;

use super::arithmetic::narrowed;
use super::{broadcast_strides, kernel_error};
use crate::axes::Axes;
use crate::op::{Facts, Func, Grads, Op, Saved, Saves, Value, Values, broadcast_dims, same_device};
use crate::{DType, Error, Meta, Result, Tensor};
use gradient::Gradient;
use lower::Lower;
use smallvec::smallvec;
pub use table::BINARY_ROWS;
pub(super) use table::rules;
use torchtpu_kernels::pointwise::{BinaryKind, UnaryKind};
use torchtpu_kernels::{pointwise as kernels, widened};

/// `y = f(a, b)` for each element, broadcast. Both operands have the same dtype, with one exception: a number beside a
/// tensor of 16-bit floats may be `float32`. Their product or quotient is computed in `float32` and rounded once. The
/// exponent of a power is rounded first, as in PyTorch, and only the gradient reads all of its digits. Logical kinds
/// give `bool`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Binary(pub BinaryKind);

/// The function that replaces a power with the exponent `b` in PyTorch. Unlike powers, roots of negative infinity are
/// NaN.
fn as_root(b: &Tensor) -> Option<UnaryKind> {
    let exponent = match b.dtype() {
        DType::F32 => b.as_slice::<f32>()?[0] as f64,
        DType::F64 => b.as_slice::<f64>()?[0],
        _ => return None,
    };
    match exponent {
        0.5 => Some(UnaryKind::Sqrt),
        -0.5 => Some(UnaryKind::Rsqrt),
        _ => None,
    }
}

/// Which complex numbers a function takes.
#[derive(Clone, Copy)]
enum Complex {
    /// All.
    Allowed,
    /// None, with the message of a missing kernel.
    NoKernel,
    /// None, with a `TypeError`.
    Refused,
    /// All, by a function of the promoted operands. The node does not take them.
    By(fn(&Tensor, &Tensor) -> Result<Tensor>),
}

/// What a function does with integers and `bool`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Integers {
    /// It is computed in their own dtype.
    Kept,
    /// It is computed in the default dtype.
    Converted,
    /// It refuses them.
    Refused,
}

/// The rules of one function. The methods that return `Rules` set its columns.
pub(super) struct Rules {
    lower: Lower,
    gradient: Gradient,
    complex: Complex,
    integers: Integers,
    /// The categories of real dtypes that the node takes, constants of [`table`].
    takes: u8,
    /// The name of PyTorch's kernel in messages, if it is not the function's with `_cpu`.
    kernel: Option<&'static str>,
    /// Sets of operands in which it is linear.
    linear: &'static [u64],
    /// Whether the gradient formula rounds once. Otherwise it is computed in `float32` for 16-bit floats.
    rounds_once: fn(&Saved<'_>, &Tensor) -> bool,
}

impl Rules {
    /// Rules of a function of real numbers.
    const fn new(lower: Lower, gradient: Gradient) -> Rules {
        Rules {
            lower,
            gradient,
            complex: Complex::NoKernel,
            integers: Integers::Kept,
            takes: u8::MAX,
            kernel: None,
            linear: &[],
            rounds_once: |_, _| false,
        }
    }
    /// Takes complex numbers.
    const fn takes_complex(mut self) -> Rules {
        self.complex = Complex::Allowed;
        self
    }
    /// Refuses complex numbers with a `TypeError`, as PyTorch does.
    const fn complex_refused_by_type(mut self) -> Rules {
        self.complex = Complex::Refused;
        self
    }
    /// Computes complex numbers by a function.
    const fn complex_by(mut self, f: fn(&Tensor, &Tensor) -> Result<Tensor>) -> Rules {
        self.complex = Complex::By(f);
        self
    }
    /// Computes integers and `bool` in the default dtype.
    const fn converts_integers(mut self) -> Rules {
        self.integers = Integers::Converted;
        self
    }
    /// Refuses integers and `bool`.
    const fn refuses_integers(mut self) -> Rules {
        self.integers = Integers::Refused;
        self
    }
    /// Takes these categories of real dtypes only.
    const fn takes(mut self, categories: u8) -> Rules {
        self.takes = categories;
        self
    }
    /// Sets the name of PyTorch's kernel in messages.
    const fn kernel(mut self, name: &'static str) -> Rules {
        self.kernel = Some(name);
        self
    }
    /// Is linear in these sets of operands.
    const fn linear(mut self, sets: &'static [u64]) -> Rules {
        self.linear = sets;
        self
    }
    /// The gradient formula rounds once.
    const fn rounds_once(self) -> Rules {
        self.rounds_once_if(|_, _| true)
    }
    /// The gradient formula rounds once in this case.
    const fn rounds_once_if(mut self, case: fn(&Saved<'_>, &Tensor) -> bool) -> Rules {
        self.rounds_once = case;
        self
    }
    /// Whether the result is floating point for all dtypes of the operands.
    #[inline]
    pub(super) fn is_float_only(&self) -> bool {
        self.integers != Integers::Kept
    }
    /// The function that computes complex numbers in place of the node.
    #[inline]
    pub(super) fn of_complex(&self) -> Option<fn(&Tensor, &Tensor) -> Result<Tensor>> {
        if let Complex::By(f) = self.complex { Some(f) } else { None }
    }
    /// Refuse integers where PyTorch does, in its words.
    pub(super) fn check_integers(&self, kind: BinaryKind, dtype: DType) -> Result<()> {
        if self.integers == Integers::Refused { Err(self.unsupported(kind, dtype)) } else { Ok(()) }
    }
    /// Refuse a dtype where PyTorch does, in its words.
    #[inline]
    fn check(&self, kind: BinaryKind, dtype: DType) -> Result<()> {
        if self.takes == u8::MAX && kind != BinaryKind::Sub && !dtype.is_complex() {
            return Ok(());
        }
        let category = match dtype {
            DType::Bool => table::BOOL,
            d if d.is_int() => table::INTS,
            d if d.is_half() => table::HALVES,
            d if d.is_float() => table::WIDE_FLOATS,
            _ => return self.check_complex(kind, dtype),
        };
        if self.takes & category == 0 {
            return Err(self.unsupported(kind, dtype));
        }
        if kind == BinaryKind::Sub && dtype == DType::Bool {
            return Err(Error::not_implemented(
                "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` \
                operator instead.",
            ));
        }
        Ok(())
    }
    #[cold]
    fn check_complex(&self, kind: BinaryKind, dtype: DType) -> Result<()> {
        match self.complex {
            Complex::Allowed => Ok(()),
            Complex::Refused => Err(Error::type_error(format!("{} not implemented for complex tensors.", kind.name()))),
            Complex::NoKernel | Complex::By(_) => Err(self.unsupported(kind, dtype)),
        }
    }
    #[cold]
    fn unsupported(&self, kind: BinaryKind, dtype: DType) -> Error {
        match self.kernel {
            Some(name) => crate::ops::complex::unsupported(name, dtype),
            None => crate::ops::complex::unsupported(&format!("{}_cpu", kind.name()), dtype),
        }
    }
}

impl Op for Binary {
    const NAME: &'static str = "binary";
    const FACTS: Facts = Facts { updates_in_place: true, is_binary: true, ..Facts::NONE };
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    fn label(&self) -> &'static str {
        self.0.name()
    }
    #[inline]
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (a, b) = (x[0], x[1]);
        let dims = broadcast_dims(a.dims(), b.dims())?;
        let place = same_device(x)?;
        rules(self.0).check(self.0, a.dtype())?;
        Ok(Meta { dims, dtype: self.0.result(a.dtype()), place })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(rules(self.0).linear)
    }
    fn takes_complex(&self) -> bool {
        true
    }
    #[inline]
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let (a, b, out) = (x[0], x[1], &y[0]);
        if a.dtype() != b.dtype() && self.0 == BinaryKind::Pow {
            return self.kernel(&[a, &b.to_dtype(a.dtype())?], y);
        }
        if a.dtype() != b.dtype() {
            return match narrowed(b, a.dtype())? {
                Some(b) => self.kernel(&[a, &b], y),
                None => {
                    let by = b.as_slice::<f32>().map_or(f32::NAN, |v| v[0]);
                    widened::with_number(self.0, &a.view(), by, &mut out.view_mut()).map_err(kernel_error)
                }
            };
        }
        if self.0 == BinaryKind::Pow
            && b.is_wrapped_number()
            && let Some(root) = as_root(b)
        {
            return kernels::unary(root, &a.view(), &mut out.view_mut()).map_err(kernel_error);
        }
        if a.dims() == b.dims() {
            return kernels::binary(self.0, &a.view(), &b.view(), &mut out.view_mut()).map_err(kernel_error);
        }
        let (sa, sb) = (broadcast_strides(a, out.dims()), broadcast_strides(b, out.dims()));
        kernels::binary(self.0, &a.view_as(out.dims(), &sa), &b.view_as(out.dims(), &sb), &mut out.view_mut())
            .map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let a = f.broadcast_to(&x[0], &y[0].dims);
        let b = f.broadcast_to(&x[1], &y[0].dims);
        if a.element() != b.element() && self.0 == BinaryKind::Pow {
            let b = f.convert(&b, a.element());
            return smallvec![lower_binary(self.0, f, &a, &b)];
        }
        if a.element() != b.element() {
            let wide = f.convert(&a, b.element());
            let y = lower_binary(self.0, f, &wide, &b);
            return smallvec![f.convert(&y, a.element())];
        }
        smallvec![lower_binary(self.0, f, &a, &b)]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let rules = rules(self.0);
        let rule = |s: &Saved<'_>, g: &Tensor| -> Result<Grads> {
            let (ga, gb) = rules.gradient.compute(s, g)?;
            let to = |d: Option<Tensor>, i: usize| d.map(|d| d.sum_to(&s.meta(i).dims)).transpose();
            Ok(smallvec![to(ga, 0)?, to(gb, 1)?])
        };
        if (rules.rounds_once)(s, g) { rule(s, g) } else { s.widely(g, rule) }
    }
    #[inline]
    fn saves(&self, needs: u64) -> Saves {
        rules(self.0).gradient.saves(needs)
    }
}

fn lower_binary(kind: BinaryKind, f: &mut Func, a: &Value, b: &Value) -> Value {
    rules(kind).lower.spell(kind, f, a, b)
}
