//! Special functions as StableHLO. An [`Analytic`] type appends its operations to a program, so that kernels and
//! lowerings share one text.

use crate::op::{Func, Value};
use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};
use torchtpu_kernels::special::{Analytic, Arithmetic, EXPONENT_BIAS, MANTISSA, ROOT_HALF, WHOLE};
use torchtpu_stablehlo::{Direction, ElementType, ReduceKind};

/// A value of the program that `f` builds.
#[derive(Clone)]
struct Lowered<'a> {
    f: &'a RefCell<Func>,
    v: Value,
}

impl<'a> Lowered<'a> {
    fn made(&self, op: impl FnOnce(&mut Func) -> Value) -> Lowered<'a> {
        let v = op(&mut self.f.borrow_mut());
        Lowered { f: self.f, v }
    }
    fn apply(&self, op: &'static str) -> Lowered<'a> {
        self.made(|f| f.unary(op, &self.v))
    }
    fn with(&self, op: &'static str, other: &Lowered<'a>) -> Lowered<'a> {
        self.made(|f| f.binary(op, &self.v, &other.v))
    }
    /// The bits of a number of `f64`.
    fn bits(&self) -> Lowered<'a> {
        debug_assert_eq!(self.v.element(), ElementType::F64);
        self.made(|f| f.bitcast_convert(&self.v, ElementType::S64))
    }
    /// The number of `f64` with these bits.
    fn number(&self) -> Lowered<'a> {
        self.made(|f| f.bitcast_convert(&self.v, ElementType::F64))
    }
    /// A constant of bits with the shape of `self`.
    fn integer(&self, bits: u64) -> Lowered<'a> {
        self.made(|f| f.splat_i64(bits as i64, self.v.ty()))
    }
}

macro_rules! operators {
    ($($Trait:ident $name:ident $op:literal;)*) => {$(
        impl<'a> $Trait for Lowered<'a> {
            type Output = Lowered<'a>;
            fn $name(self, other: Lowered<'a>) -> Lowered<'a> { self.with($op, &other) }
        }
        impl<'a> $Trait<f64> for Lowered<'a> {
            type Output = Lowered<'a>;
            fn $name(self, other: f64) -> Lowered<'a> { self.with($op, &self.of(other)) }
        }
    )*};
}
operators! {
    Add add "stablehlo.add";
    Sub sub "stablehlo.subtract";
    Mul mul "stablehlo.multiply";
}

impl<'a> Div for Lowered<'a> {
    type Output = Lowered<'a>;
    fn div(self, other: Lowered<'a>) -> Lowered<'a> {
        let y = self.with("stablehlo.divide", &other);
        if self.f.borrow().profile().fuses_divisions {
            return y;
        }
        // XLA:CPU ends a fusion at a division with several uses, and writes its result to memory. Here the division has
        // one use: this operation changes no value, which compilers do not detect.
        self.made(|f| {
            let nan = f.compare(Direction::Ne, &other.v, &other.v);
            f.select(&nan, &other.v, &y.v)
        })
    }
}
impl<'a> Div<f64> for Lowered<'a> {
    type Output = Lowered<'a>;
    fn div(self, other: f64) -> Lowered<'a> {
        let other = self.of(other);
        self / other
    }
}

impl<'a> Neg for Lowered<'a> {
    type Output = Lowered<'a>;
    fn neg(self) -> Lowered<'a> {
        self.apply("stablehlo.negate")
    }
}

impl<'a> Arithmetic for Lowered<'a> {
    type Truth = Lowered<'a>;
    fn of(&self, v: f64) -> Self {
        self.made(|f| f.splat(v, self.v.ty()))
    }
    fn exp(&self) -> Self {
        self.apply("stablehlo.exponential")
    }
    fn ln(&self) -> Self {
        self.apply("stablehlo.log")
    }
    fn sqrt(&self) -> Self {
        self.apply("stablehlo.sqrt")
    }
    fn abs(&self) -> Self {
        self.apply("stablehlo.abs")
    }
    fn round(&self) -> Self {
        self.apply("stablehlo.round_nearest_even")
    }
    fn split(&self) -> (Self, Self) {
        let bits = self.bits();
        let above = bits.clone() - bits.integer(ROOT_HALF);
        let f = above.with("stablehlo.and", &bits.integer(MANTISSA)) + bits.integer(ROOT_HALF);
        let e = (above + bits.integer(EXPONENT_BIAS << 52)).with("stablehlo.shift_right_logical", &bits.integer(52));
        let e = e.with("stablehlo.or", &bits.integer(WHOLE.to_bits())).number();
        (e - (WHOLE + EXPONENT_BIAS as f64), f.number() - 1.0)
    }
    fn scaled(&self, n: &Self) -> Self {
        let bits = (n.clone() + (WHOLE + 1023.0)).bits();
        self.clone() * bits.with("stablehlo.shift_left", &bits.integer(52)).number()
    }
    fn copysign(&self, sign: &Self) -> Self {
        let (magnitude, sign) = (self.abs().bits(), sign.bits());
        magnitude.with("stablehlo.or", &sign.with("stablehlo.and", &sign.integer(1 << 63))).number()
    }
    fn fused(&self, b: &Self, c: &Self) -> Self {
        self.clone() * b.clone() + c.clone()
    }
    fn less(&self, other: &Self) -> Self {
        self.made(|f| f.compare(Direction::Lt, &self.v, &other.v))
    }
    fn same(&self, other: &Self) -> Self {
        self.made(|f| f.compare(Direction::Eq, &self.v, &other.v))
    }
    fn both(a: &Self, b: &Self) -> Self {
        a.with("stablehlo.and", b)
    }
    fn either(a: &Self, b: &Self) -> Self {
        a.with("stablehlo.or", b)
    }
    fn not(a: &Self) -> Self {
        a.apply("stablehlo.not")
    }
    fn choose(t: &Self, yes: impl FnOnce() -> Self, no: impl FnOnce() -> Self) -> Self {
        let (yes, no) = (yes(), no());
        t.made(|f| f.select(&t.v, &yes.v, &no.v))
    }
}

impl<'a> Analytic for Lowered<'a> {
    fn epsilon(&self) -> f64 {
        if self.v.element() == ElementType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
    }
    fn exp_m1(&self) -> Self {
        self.apply("stablehlo.exponential_minus_one")
    }
    fn ln_1p(&self) -> Self {
        self.apply("stablehlo.log_plus_one")
    }
    fn sin(&self) -> Self {
        self.apply("stablehlo.sine")
    }
    fn cos(&self) -> Self {
        self.apply("stablehlo.cosine")
    }
    fn acos(&self) -> Self {
        self.apply("chlo.acos")
    }
    fn floor(&self) -> Self {
        self.apply("stablehlo.floor")
    }
    fn pow(&self, p: &Self) -> Self {
        self.with("stablehlo.power", p)
    }
    fn erfc(&self) -> Self {
        self.apply("chlo.erfc")
    }
    fn lgamma(&self) -> Self {
        self.apply("chlo.lgamma")
    }
    fn repeat<const N: usize>(
        state: [Self; N],
        going: impl Fn(&[Self; N]) -> Self,
        step: impl Fn([Self; N]) -> [Self; N],
    ) -> [Self; N] {
        let cell = state[0].f;
        let all: Vec<usize> = (0..state[0].v.rank()).collect();
        // In the regions, the values of this file append to the cell. So the function is moved into the cell for that
        // time.
        let inside = |f: &mut Func, carried: &[Value], g: &dyn Fn([Self; N]) -> Vec<Self>| -> Vec<Value> {
            cell.replace(std::mem::take(f));
            let y = g(std::array::from_fn(|i| Lowered { f: cell, v: carried[i].clone() }));
            *f = cell.take();
            y.into_iter().map(|y| y.v).collect()
        };
        let init: Vec<Value> = state.iter().map(|s| s.v.clone()).collect();
        let mut f = cell.take();
        let y = f.while_loop(
            &init,
            |f, carried| {
                let live = inside(f, carried, &|s| vec![going(&s)]).swap_remove(0);
                f.reduce(&live, ReduceKind::Or, &all)
            },
            |f, carried| {
                inside(f, carried, &|s| {
                    let live = going(&s);
                    let next = step(s.clone());
                    s.into_iter().zip(next).map(|(old, new)| Self::choose(&live, || new, || old)).collect()
                })
            },
        );
        cell.replace(f);
        std::array::from_fn(|i| Lowered { f: cell, v: y[i].clone() })
    }
}

/// A function that [`unary`] and [`binary`] run over several types: a name for all its versions.
macro_rules! entry {
    ($(#[$doc:meta])* $name:ident $Trait:ident ($($x:ident),*)) => {
        /// A function to lower.
        pub(crate) trait $Trait {
            /// The function.
            fn of<T: Analytic>(self, $($x: &T),*) -> T;
        }
        $(#[$doc])*
        pub(crate) fn $name(f: &mut Func, g: impl $Trait, $($x: &Value),*) -> Value {
            let e = [$($x.element()),*][0];
            let wide = e.widened();
            $(let $x = f.convert($x, wide);)*
            let cell = RefCell::new(std::mem::take(f));
            let y = g.of($(&Lowered { f: &cell, v: $x }),*).v;
            *f = cell.into_inner();
            f.convert(&y, e)
        }
    };
}
entry! {
    /// Append a function of one value. Types narrower than `f32` are computed in `f32`.
    unary OfOne (x)
}
entry! {
    /// Append a function of two values. Types narrower than `f32` are computed in `f32`.
    binary OfTwo (a, b)
}
entry! {
    /// Append a function of three values. Types narrower than `f32` are computed in `f32`.
    ternary OfThree (a, b, c)
}
entry! {
    /// Append a function of four values. Types narrower than `f32` are computed in `f32`.
    quaternary OfFour (a, b, c, d)
}
