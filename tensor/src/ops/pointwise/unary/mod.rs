//! `Unary{kind}`: functions of one operand. [`table`] has a row for each.

mod gradient;
mod lower;
mod table;

use super::kernel_error;
use crate::axes::Axes;
use crate::lower::kernel_call::KernelCall;
use crate::lower::math;
use crate::op::{Facts, Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::schema::{OutDType, Row, Sample, Tier, messages, n, t};
use crate::{DType, Error, ErrorKind, Meta, Result, Scalar, Tensor, default_dtype, dispatch, inplace};
use gradient::Gradient;
use lower::Lower;
use smallvec::smallvec;
use table::rules;
pub use table::{SPECIAL_I0_ROWS, SPECIAL_UNARY_ROWS, UNARY_ALIAS_ROWS, UNARY_ROWS};
use torchtpu_kernels::pointwise as kernels;
use torchtpu_kernels::pointwise::UnaryKind;

/// `y = f(x)` for each element. Predicates give `bool`; everything else keeps the dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unary(pub UnaryKind);

/// Which complex numbers a function takes.
#[derive(Clone, Copy)]
enum Complex {
    /// All.
    Allowed,
    /// None, with this message.
    Refused(&'static str),
    /// None, with the message of a missing kernel of this name.
    NoKernel(&'static str),
}

/// What a function does with integers and `bool`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Integers {
    /// It is computed in the default dtype.
    Converted,
    /// It is computed in their own dtype.
    Kept,
    /// It refuses them.
    Refused,
}

/// The rules of one function. The methods that return `Rules` set its columns.
struct Rules {
    lower: Lower,
    /// Another spelling for floats of at most 32 bits, where the profile `spells_functions`.
    on_cpu: Option<fn(&mut Func, &Value) -> Value>,
    gradient: Gradient,
    /// Whether the gradient formula holds for complex numbers by conjugation.
    is_holomorphic: bool,
    complex: Complex,
    integers: Integers,
    /// Whether it is linear over the real numbers.
    is_linear: bool,
    /// Whether the gradient formula rounds once. Others are computed in `float32` for 16-bit floats.
    rounds_once: bool,
}

impl Rules {
    /// Rules of a function of floating-point and complex numbers.
    const fn new(lower: Lower, gradient: Gradient) -> Rules {
        Rules {
            lower,
            on_cpu: None,
            gradient,
            is_holomorphic: true,
            complex: Complex::Allowed,
            integers: Integers::Converted,
            is_linear: false,
            rounds_once: false,
        }
    }
    /// Sets the spelling of floats of at most 32 bits where the profile `spells_functions`.
    const fn on_cpu(mut self, spelling: fn(&mut Func, &Value) -> Value) -> Rules {
        self.on_cpu = Some(spelling);
        self
    }
    /// The gradient formula looks at the dtype itself.
    const fn not_holomorphic(mut self) -> Rules {
        self.is_holomorphic = false;
        self
    }
    /// The function is linear over the real numbers.
    const fn linear(mut self) -> Rules {
        self.is_linear = true;
        self
    }
    /// The gradient formula rounds once.
    const fn rounds_once(mut self) -> Rules {
        self.rounds_once = true;
        self
    }
    /// Refuses complex numbers in these words.
    const fn complex_refused(mut self, message: &'static str) -> Rules {
        self.complex = Complex::Refused(message);
        self
    }
    /// Refuses complex numbers as PyTorch's kernel of this name does.
    const fn real(mut self, kernel: &'static str) -> Rules {
        self.complex = Complex::NoKernel(kernel);
        self
    }
    /// Computes integers in their own dtype.
    const fn keeps_integers(mut self) -> Rules {
        self.integers = Integers::Kept;
        self
    }
    /// Refuses integers.
    const fn refuses_integers(mut self) -> Rules {
        self.integers = Integers::Refused;
        self
    }
    /// Refuse complex numbers where PyTorch does, in its words.
    #[cold]
    fn check_complex(&self, d: DType) -> Result<()> {
        match self.complex {
            Complex::Allowed => Ok(()),
            Complex::Refused(message) => Err(Error::not_implemented(message)),
            Complex::NoKernel(name) => Err(crate::ops::complex::unsupported(name, d)),
        }
    }
}

impl Op for Unary {
    const NAME: &'static str = "unary";
    const FACTS: Facts = Facts { updates_in_place: true, ..Facts::NONE };
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    fn label(&self) -> &'static str {
        self.0.name()
    }
    #[inline]
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let m = x[0].meta();
        if m.dtype.is_complex() {
            rules(self.0).check_complex(m.dtype)?;
            return Ok(m.with_dtype(self.0.result(m.dtype)));
        }
        if self.0.is_predicate() {
            return Ok(m.with_dtype(DType::Bool));
        }
        match (self.0, m.dtype) {
            (UnaryKind::Abs, DType::Bool) => Err(crate::ops::complex::unsupported("abs_cpu", m.dtype)),
            (UnaryKind::Neg, DType::Bool) => Err(Error::not_implemented(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, \
                use the `~` or `logical_not()` operator instead.",
            )),
            (UnaryKind::BitwiseNot, d) if d.is_float() => Err(crate::ops::complex::unsupported("bitwise_not_cpu", d)),
            _ => Ok(*m),
        }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(if rules(self.0).is_linear { &[0b1] } else { &[] })
    }
    fn takes_complex(&self) -> bool {
        true
    }
    #[inline]
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::unary(self.0, &x[0].view(), &mut y[0].view_mut()).map_err(kernel_error)
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        if math::is_called(self.0, f, &x[0]) {
            return math::Angle(self.0).call_kernel(f, x, y);
        }
        smallvec![lower_unary(self.0, f, &x[0])]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let rules = rules(self.0);
        let conjugated = rules.is_holomorphic && s.meta(0).dtype.is_complex();
        let gradient = rules.gradient;
        let is_narrow = s.meta(0).dtype.is_half();
        let rule = |s: &Saved<'_>, g: &Tensor| -> Result<Grads> {
            Ok(smallvec![if conjugated { gradient.compute_conjugated(s, g)? } else { gradient.compute(s, g)? }])
        };
        if rules.rounds_once || matches!(gradient, Gradient::Of(_)) {
            return rule(s, g);
        }
        s.widely(g, |s, g| {
            if !is_narrow || !matches!(gradient, Gradient::OfBoth(_)) {
                return rule(s, g);
            }
            // Terms with the operand and the result cancel, so the result must not be the rounded one.
            let y = [Some(unary(self.0, s.x(0))?)];
            rule(&Saved { y: &y, ..*s }, g)
        })
    }
    fn saves(&self, _needs: u64) -> Saves {
        rules(self.0).gradient.saves()
    }
}

pub(super) fn lower_unary(kind: UnaryKind, f: &mut Func, x: &Value) -> Value {
    let rules = rules(kind);
    match rules.on_cpu {
        Some(spelling) if f.profile().spells_functions && math::is_single(x.element()) => spelling(f, x),
        _ => rules.lower.apply(f, x),
    }
}

/// Apply a unary op; integers become the default floating-point dtype where the result is not an integer.
pub fn unary(kind: UnaryKind, x: &Tensor) -> Result<Tensor> {
    if kind == UnaryKind::Square && x.dtype() == DType::Bool {
        return dispatch::call(Prim::Unary(Unary(kind)), &[&x.to_dtype(DType::I64)?]); // a power
    }
    let rules = rules(kind);
    if matches!(rules.gradient, Gradient::Missing) && x.requires_grad() {
        return unary(kind, &x.detach());
    }
    match rules.integers {
        Integers::Kept => {}
        _ if x.dtype().is_inexact() => {}
        Integers::Converted => {
            return dispatch::call(Prim::Unary(Unary(kind)), &[&x.to_dtype(default_dtype())?]);
        }
        Integers::Refused => {
            return Err(crate::ops::complex::unsupported(&format!("{}_cpu", kind.name()), x.dtype()));
        }
    }
    dispatch::call(Prim::Unary(Unary(kind)), &[x])
}

/// The in-place form.
pub fn unary_(kind: UnaryKind, x: &Tensor) -> Result<()> {
    inplace::check_writable(x)?;
    if kind == UnaryKind::Abs {
        crate::ops::complex::refuse(x, ErrorKind::Runtime, "In-place abs is not supported for complex tensors.")?;
    }
    if !x.dtype().is_inexact() && rules(kind).integers == Integers::Converted {
        return Err(Error::runtime(format!(
            "result type {} can't be cast to the desired output type {}",
            default_dtype().scalar_type(),
            x.dtype().scalar_type()
        )));
    }
    if dispatch::call_into(&Prim::Unary(Unary(kind)), &[x], x)? {
        return Ok(());
    }
    inplace::apply(x, |x| unary(kind, x))
}

/// Round to a number of decimal places; negative ones are places before the point.
fn round_to(x: &Tensor, decimals: i64) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return if decimals == 0 {
            x.copy()
        } else {
            Err(Error::not_implemented(format!("\"round_cpu\" not implemented for '{}'", x.dtype().scalar_type())))
        };
    }
    let half = x.dtype().is_half();
    let wide = if half { x.to_dtype(DType::F32)? } else { x.clone() };
    let ten = Scalar::Float(10f64.powi(decimals.unsigned_abs().min(400) as i32));
    let y = if decimals < 0 {
        wide.div_scalar(ten)?.round()?.mul_scalar(ten)?
    } else {
        wide.mul_scalar(ten)?.round()?.div_scalar(ten)?
    };
    y.to_dtype(x.dtype())
}

/// Rounding to decimal places.
pub const ROUND_ROWS: &[Row] = &[Row::new(
    "round.decimals(Tensor self, *, int decimals) -> Tensor",
    Tier::Composed,
    |a| Ok(round_to(a.tensor(0)?, a.int(1)?)?.into()),
    || vec![Sample::new(vec![t(&[2, 3]), n(2)]).no_gradient()],
)
.inplace()
.out_dtype(OutDType::OfInput(messages::found))
.aliases(&["special_round"])
.in_place_function()];
