//! Operators: `&a + &b` and others.
//!
//! Operators cannot return a `Result`, so they panic with the same message that the method gives.

use crate::{Scalar, Tensor};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Unwrap the result of an operator.
#[track_caller]
fn expect_ok(x: crate::Result<Tensor>) -> Tensor {
    match x {
        Ok(t) => t,
        Err(e) => panic!("{e}"),
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $scalar:ident;)*) => {$(
        impl $trait<&Tensor> for &Tensor {
            type Output = Tensor;
            /// # Panics
            /// When the method of the same name returns an error.
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor { expect_ok(Tensor::$method(self, other)) }
        }
        impl $trait<Tensor> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor { expect_ok(Tensor::$method(&self, &other)) }
        }
        impl $trait<&Tensor> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor { expect_ok(Tensor::$method(&self, other)) }
        }
        impl $trait<Tensor> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor { expect_ok(Tensor::$method(self, &other)) }
        }
        impl $trait<f64> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: f64) -> Tensor { expect_ok(self.$scalar(Scalar::Float(other))) }
        }
        impl $trait<f64> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: f64) -> Tensor { expect_ok(self.$scalar(Scalar::Float(other))) }
        }
    )*};
}

operators! {
    Add add add_scalar;
    Sub sub sub_scalar;
    Mul mul mul_scalar;
    Div div div_scalar;
}

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        expect_ok(Tensor::neg(self))
    }
}
impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        expect_ok(Tensor::neg(&self))
    }
}
