//! Padding of the last dimensions of `[n, c, *s]` or `[c, *s]`.

use super::{of_rank, pad};
use crate::{Module, Visitor};
use torchtpu_tensor::{Error, Result, Tensor};

fn flat<const N: usize>(padding: &[[i64; 2]; N]) -> Vec<i64> {
    padding.iter().flatten().copied().collect()
}

/// Pad with a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConstantPad<const N: usize> {
    /// Padding before and after each dimension, the last dimension first. Negative numbers crop.
    pub padding: [[i64; 2]; N],
    /// The constant.
    pub value: f64,
}

/// Pad one dimension with a constant.
pub type ConstantPad1d = ConstantPad<1>;
/// Pad two dimensions with a constant.
pub type ConstantPad2d = ConstantPad<2>;
/// Pad three dimensions with a constant.
pub type ConstantPad3d = ConstantPad<3>;

impl<const N: usize> ConstantPad<N> {
    /// Make a layer with equal padding on all sides.
    pub fn new(padding: i64, value: f64) -> ConstantPad<N> {
        ConstantPad { padding: [[padding; 2]; N], value }
    }
}

impl<const N: usize> Module for ConstantPad<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        pad(x, &flat(&self.padding), "constant", Some(self.value))
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn name(&self) -> &'static str {
        of_rank::<N>(["ConstantPad1d", "ConstantPad2d", "ConstantPad3d"])
    }
}

/// Define a type, its three names, and a module that calls `pad` with the mode, from one line each.
macro_rules! pads {
    ($($doc:literal $mode:literal $ty:ident [$one:ident $two:ident $three:ident] $check:expr;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $ty<const N: usize> {
            /// Padding before and after each dimension, the last dimension first. Negative numbers crop.
            pub padding: [[i64; 2]; N],
        }
        #[doc = concat!($doc, " One dimension.")]
        pub type $one = $ty<1>;
        #[doc = concat!($doc, " Two dimensions.")]
        pub type $two = $ty<2>;
        #[doc = concat!($doc, " Three dimensions.")]
        pub type $three = $ty<3>;
        impl<const N: usize> $ty<N> {
            /// Make a layer with equal padding on all sides.
            pub fn new(padding: i64) -> $ty<N> {
                $ty { padding: [[padding; 2]; N] }
            }
        }
        impl<const N: usize> Module for $ty<N> {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                $check(x, N)?;
                pad(x, &flat(&self.padding), $mode, None)
            }
            fn visit(&self, _: &mut Visitor<'_>) {}
            fn name(&self) -> &'static str {
                of_rank::<N>([stringify!($one), stringify!($two), stringify!($three)])
            }
        }
    )*};
}

pads! {
    "Pads with zeros." "constant" ZeroPad [ZeroPad1d ZeroPad2d ZeroPad3d] any;
    "Pads with the elements next to the border, mirrored." "reflect" ReflectionPad
        [ReflectionPad1d ReflectionPad2d ReflectionPad3d] any;
    "Pads with the element at the border." "replicate" ReplicationPad
        [ReplicationPad1d ReplicationPad2d ReplicationPad3d] any;
    "Pads with the elements of the other end." "circular" CircularPad
        [CircularPad1d CircularPad2d CircularPad3d] one_or_batch;
}

/// Accept any input. The op itself refuses inputs that do not fit.
fn any(_: &Tensor, _: usize) -> Result<()> {
    Ok(())
}

fn one_or_batch(x: &Tensor, n: usize) -> Result<()> {
    let rank = x.dims().len();
    if rank == n + 1 || rank == n + 2 {
        return Ok(());
    }
    Err(Error::value(format!("expected {}D or {}D input (got {rank}D input)", n + 1, n + 2)))
}
