//! Operations that work element by element.

use crate::{ElementType, Func, Type, Value};

/// The relation that [`Func::compare`] tests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less than.
    Lt,
    /// Less than or equal.
    Le,
    /// Greater than.
    Gt,
    /// Greater than or equal.
    Ge,
}

impl Direction {
    pub(crate) fn mlir(self) -> &'static str {
        match self {
            Direction::Eq => "EQ",
            Direction::Ne => "NE",
            Direction::Lt => "LT",
            Direction::Le => "LE",
            Direction::Gt => "GT",
            Direction::Ge => "GE",
        }
    }
}

/// The `compare_type` of `compare` (C3).
pub(crate) fn compare_type(e: ElementType) -> &'static str {
    if e.is_float() || e.is_complex() {
        "FLOAT"
    } else if e.is_signed() {
        "SIGNED"
    } else {
        "UNSIGNED"
    }
}

impl Func {
    /// Apply an operation of one operand with its full name: `"stablehlo.tanh"`, `"chlo.erf"`.
    ///
    /// The result has the operand's type, with two exceptions: `real`, `imag` and `abs` of complex numbers are real,
    /// and `is_finite` and similar operations are boolean.
    pub fn unary(&mut self, op: &'static str, x: &Value) -> Value {
        let e = match op {
            "stablehlo.real" | "stablehlo.imag" | "stablehlo.abs" => x.element().real_part(),
            "stablehlo.is_finite" | "chlo.is_inf" | "chlo.is_pos_inf" | "chlo.is_neg_inf" => ElementType::Pred,
            _ => x.element(),
        };
        let ty = x.ty().with_element(e);
        if op.starts_with("chlo.") {
            self.op(&ty, format_args!("{op} {x} : {} -> {ty}", x.ty()))
        } else if ty == *x.ty() {
            self.op(&ty, format_args!("{op} {x} : {ty}"))
        } else {
            self.op(&ty, format_args!("{op} {x} : ({}) -> {ty}", x.ty()))
        }
    }

    /// Apply an operation of two operands of one type with its full name: `"stablehlo.add"`, `"chlo.next_after"`.
    ///
    /// The result has that type too, except for `stablehlo.complex`, which joins a real and an imaginary part. Integers
    /// are divided by [`nonzero`](Func::nonzero) divisors.
    pub fn binary(&mut self, op: &'static str, a: &Value, b: &Value) -> Value {
        assert!(a.ty() == b.ty(), "{op} (C1): operands {} and {} differ in type", a.ty(), b.ty());
        let safe;
        let b = if b.element().is_integer() && matches!(op, "stablehlo.divide" | "stablehlo.remainder") {
            safe = self.nonzero(b);
            &safe
        } else {
            b
        };
        if op == "stablehlo.complex" {
            let ty = a.ty().with_element(match a.element() {
                ElementType::F32 => ElementType::C64,
                ElementType::F64 => ElementType::C128,
                _ => panic!("{op} (C3): the parts are {}, but must be f32 or f64", a.ty()),
            });
            return self.op(&ty, format_args!("{op} {a}, {b} : {ty}"));
        }
        let ty = a.ty();
        if op.starts_with("chlo.") {
            self.op(ty, format_args!("{op} {a}, {b} : {ty}, {ty} -> {ty}"))
        } else {
            self.op(ty, format_args!("{op} {a}, {b} : {ty}"))
        }
    }

    /// Compare two values of one type. The result is boolean. Complex numbers can only be compared for equality.
    pub fn compare(&mut self, dir: Direction, a: &Value, b: &Value) -> Value {
        assert!(a.element() == b.element(), "compare (C1): {} and {} differ in element type", a.ty(), b.ty());
        assert!(a.shape() == b.shape(), "compare (C2): {} and {} differ in shape", a.ty(), b.ty());
        let e = a.element();
        let equality = matches!(dir, Direction::Eq | Direction::Ne);
        assert!(equality || !e.is_complex(), "compare (C3): {} has no order", e.mlir());
        let ty = a.ty().with_element(ElementType::Pred);
        let (dir, kind) = (dir.mlir(), compare_type(e));
        self.op(&ty, format_args!("stablehlo.compare {dir}, {a}, {b}, {kind} : ({}, {}) -> {ty}", a.ty(), b.ty()))
    }

    /// Take `on_true` where `pred` holds, else `on_false`. `pred` may be a scalar.
    pub fn select(&mut self, pred: &Value, on_true: &Value, on_false: &Value) -> Value {
        assert!(pred.element() == ElementType::Pred, "select (I1): the predicate is {}, but must be i1", pred.ty());
        assert!(
            pred.rank() == 0 || pred.shape() == on_true.shape(),
            "select (C1): the predicate {} does not fit {}",
            pred.ty(),
            on_true.ty()
        );
        assert!(on_true.ty() == on_false.ty(), "select (C2): {} and {} differ", on_true.ty(), on_false.ty());
        let ty = on_true.ty();
        self.op(ty, format_args!("stablehlo.select {pred}, {on_true}, {on_false} : {}, {ty}", pred.ty()))
    }

    /// Bound `x` from below by `lo` and from above by `hi`. The bounds may be scalars. NaN stays NaN with the compile
    /// option that the crate documentation names.
    pub fn clamp(&mut self, lo: &Value, x: &Value, hi: &Value) -> Value {
        for (constraint, bound) in [("C1", lo), ("C2", hi)] {
            assert!(
                bound.rank() == 0 || bound.shape() == x.shape(),
                "clamp ({constraint}): the bound {} does not fit {}",
                bound.ty(),
                x.ty()
            );
            assert!(bound.element() == x.element(), "clamp (C3): the bound {} does not fit {}", bound.ty(), x.ty());
        }
        let ty = x.ty();
        self.op(ty, format_args!("stablehlo.clamp {lo}, {x}, {hi} : ({}, {ty}, {}) -> {ty}", lo.ty(), hi.ty()))
    }

    /// Convert the elements, as PyTorch does. A boolean is `x != 0`, and a complex number gives its real part. If `x`
    /// has the type already, it is returned.
    pub fn convert(&mut self, x: &Value, e: ElementType) -> Value {
        if x.element() == e {
            return x.clone();
        }
        if x.element().is_float8() && e != ElementType::F32 {
            let wide = self.convert(x, ElementType::F32);
            return self.convert(&wide, e);
        }
        if e == ElementType::Pred {
            let zero = self.splat(0.0, x.ty());
            return self.compare(Direction::Ne, x, &zero);
        }
        if x.element().is_complex() && !e.is_complex() {
            let real = self.unary("stablehlo.real", x);
            return self.convert(&real, e);
        }
        let ty = x.ty().with_element(e);
        self.op(&ty, format_args!("stablehlo.convert {x} : ({}) -> {ty}", x.ty()))
    }

    /// Read the bits of `x` as elements of `e`. A narrower type adds a last dimension, and a wider type removes it.
    pub fn bitcast_convert(&mut self, x: &Value, e: ElementType) -> Value {
        let from = x.element();
        if from == e {
            return x.clone();
        }
        assert!(
            from.is_complex() == e.is_complex(),
            "bitcast_convert (C2): {} to {}: only both or neither may be complex",
            x.ty(),
            e.mlir()
        );
        let (old, new) = (from.bits(), e.bits());
        let mut shape = x.shape().to_vec();
        if new < old {
            shape.push(old / new);
        } else if new > old {
            let last = shape.pop();
            assert!(
                last == Some(new / old),
                "bitcast_convert (C1): the last dimension of {} must be {} to make {}",
                x.ty(),
                new / old,
                e.mlir()
            );
        }
        let ty = Type::new(&shape, e);
        self.op(&ty, format_args!("stablehlo.bitcast_convert {x} : ({}) -> {ty}", x.ty()))
    }

    /// Return whether each element of a float tensor is neither infinite nor NaN.
    pub fn is_finite(&mut self, x: &Value) -> Value {
        assert!(x.element().is_float(), "is_finite (I1): {} is not a floating-point tensor", x.ty());
        self.unary("stablehlo.is_finite", x)
    }
}
