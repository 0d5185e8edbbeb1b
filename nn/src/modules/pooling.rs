//! Pooling.

use crate::{Module, Visitor};
use torchtpu_tensor::schema::Arg;
use torchtpu_tensor::{Result, Scalar, Tensor, ops};

/// The largest element of each window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxPool2d {
    /// Height and width of a window.
    pub kernel_size: [i64; 2],
    /// Steps between windows.
    pub stride: [i64; 2],
    /// Places on both sides that never win.
    pub padding: [i64; 2],
}

impl MaxPool2d {
    /// Square windows side by side.
    pub fn new(kernel_size: i64) -> MaxPool2d {
        MaxPool2d { kernel_size: [kernel_size; 2], stride: [kernel_size; 2], padding: [0; 2] }
    }
}

impl Module for MaxPool2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let dilation = [1, 1];
        let args = [
            Arg::Tensor(x),
            Arg::Ints(&self.kernel_size),
            Arg::Ints(&self.stride),
            Arg::Ints(&self.padding),
            Arg::Ints(&dilation),
            Arg::Scalar(Scalar::Bool(false)),
        ];
        ops::call_tensor("max_pool2d", &args)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// The mean of each window; padding counts as zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AvgPool2d {
    /// Height and width of a window.
    pub kernel_size: [i64; 2],
    /// Steps between windows.
    pub stride: [i64; 2],
    /// Zeros on both sides.
    pub padding: [i64; 2],
}

impl AvgPool2d {
    /// Square windows side by side.
    pub fn new(kernel_size: i64) -> AvgPool2d {
        AvgPool2d { kernel_size: [kernel_size; 2], stride: [kernel_size; 2], padding: [0; 2] }
    }
}

impl Module for AvgPool2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let args = [
            Arg::Tensor(x),
            Arg::Ints(&self.kernel_size),
            Arg::Ints(&self.stride),
            Arg::Ints(&self.padding),
            Arg::Scalar(Scalar::Bool(false)),
            Arg::Scalar(Scalar::Bool(true)),
            Arg::None,
        ];
        ops::call_tensor("avg_pool2d", &args)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}
