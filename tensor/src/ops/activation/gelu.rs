//! GELU, exact and approximate.

use super::same_as;
use crate::axes::Axes;
use crate::lower::fields::fields;
use crate::lower::kernel_call::{self, KernelCall, message, misfit};
use crate::op::{Fused, KernelFn, LowerFn, Outs, Prim, Saves, VjpFn};
use crate::ops::pointwise::kernel_error;
use crate::types::compute::{expect_float, narrowed, widened};
use crate::{Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::pointwise as kernels;
use torchtpu_kernels::{View, ViewMut};

/// `x * Phi(x)`, where `Phi` is the distribution function of the normal distribution, or its approximation by `tanh`.
///
/// The operand has any shape and a floating-point dtype; 16-bit floats are computed in `f32`. Saves `x`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gelu {
    /// Whether to approximate by `tanh`.
    pub tanh: bool,
}

/// Gradient of [`Gelu`] from the output's gradient and `x`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GeluBackward {
    /// Whether to approximate by `tanh`.
    pub tanh: bool,
}

const ROOT_HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;
/// `sqrt(2 / pi)`.
const TANH_SCALE: f64 = 0.797_884_560_802_865_4;
const TANH_CUBE: f64 = 0.044_715;

fields! {
    Gelu { tanh };
    GeluBackward { tanh };
}

impl KernelCall for Gelu {
    fn name() -> &'static str {
        "gelu"
    }
    fn arity(&self) -> (usize, usize) {
        (1, 1)
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([x], [y]) = (x, y) else { return Err(misfit(self)) };
        kernels::gelu(x, self.tanh, y).map_err(message)
    }
}

impl KernelCall for GeluBackward {
    fn name() -> &'static str {
        "gelu_backward"
    }
    fn compute(&self, x: &[View<'_>], y: &mut [ViewMut<'_>]) -> std::result::Result<(), String> {
        let ([g, x], [gx]) = (x, y) else { return Err(misfit(self)) };
        kernels::gelu_backward(g, x, self.tanh, gx).map_err(message)
    }
}

impl Fused for Gelu {
    const NAME: &'static str = "gelu";
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    const KERNEL: Option<KernelFn<Self>> =
        Some(|o, x, y| kernels::gelu(&x[0].view(), o.tanh, &mut y[0].view_mut()).map_err(kernel_error));
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| o.call_kernel(f, [&x[0]], y));
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        Ok(smallvec![Some(dispatch::call(Prim::GeluBackward(GeluBackward { tanh: o.tanh }), &[g, s.x(0)])?)])
    });
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float("GeluKernelImpl", x[0])?;
        Ok(*x[0].meta())
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y)
    }
    fn is_lowered(&self, x: &[&Tensor]) -> bool {
        kernel_call::is_called(x[0].numel())
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let v = widened(x[0])?;
        let y = if self.tanh {
            let inner = v.add(&v.square()?.mul(&v)?.mul_scalar(TANH_CUBE)?)?.mul_scalar(TANH_SCALE)?;
            v.mul_scalar(0.5)?.mul(&inner.tanh()?.add_scalar(1.0)?)?
        } else {
            v.mul_scalar(0.5)?.mul(&v.mul_scalar(-ROOT_HALF)?.erfc()?)?
        };
        Ok(smallvec![narrowed(y, x[0].dtype())?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(1)
    }
}

impl Fused for GeluBackward {
    const NAME: &'static str = "gelu_backward";
    const STRIDES: crate::op::Strides = crate::op::Strides::Elementwise;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        kernels::gelu_backward(&x[0].view(), &x[1].view(), o.tanh, &mut y[0].view_mut()).map_err(kernel_error)
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| o.call_kernel(f, [&x[0], &x[1]], y));
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        expect_float("GeluBackwardKernelImpl", x[0])?;
        same_as(x[0], x[1])
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b01])
    }
    fn is_lowered(&self, x: &[&Tensor]) -> bool {
        kernel_call::is_called(x[0].numel())
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (g, v) = (widened(x[0])?, widened(x[1])?);
        let slope = if self.tanh {
            let v2 = v.square()?;
            let th = v.add(&v2.mul(&v)?.mul_scalar(TANH_CUBE)?)?.mul_scalar(TANH_SCALE)?.tanh()?;
            let inner = v2.mul_scalar(3.0 * TANH_CUBE)?.add_scalar(1.0)?.mul_scalar(TANH_SCALE)?;
            let bell = th.square()?.neg()?.add_scalar(1.0)?.mul(&inner)?.mul(&v)?.mul_scalar(0.5)?;
            th.add_scalar(1.0)?.mul_scalar(0.5)?.add(&bell)?
        } else {
            let phi = v.mul_scalar(-ROOT_HALF)?.erfc()?.mul_scalar(0.5)?;
            let density = v.square()?.mul_scalar(-0.5)?.exp()?.mul_scalar(0.5 * TANH_SCALE)?;
            phi.add(&v.mul(&density)?)?
        };
        Ok(smallvec![narrowed(g.mul(&slope)?, x[0].dtype())?])
    }
}

/// `torch.nn.functional.gelu`.
///
/// # Errors
/// `Runtime` for an unknown approximation or a dtype that is not floating point.
pub fn gelu(x: &Tensor, approximate: &str) -> Result<Tensor> {
    let tanh = match approximate {
        "none" => false,
        "tanh" => true,
        _ => return Err(Error::runtime("approximate argument must be either none or tanh.")),
    };
    dispatch::call(Prim::Gelu(Gelu { tanh }), &[x])
}
