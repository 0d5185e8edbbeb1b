//! Sample arguments of rows, for the table-driven tests.

use crate::{DType, Scalar};

/// The distribution of the values of a sample tensor. All are deterministic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fill {
    /// Spread over about (-2, 2), no two alike, none near zero.
    Normal,
    /// Positive, about (0.2, 2).
    Positive,
    /// Within (-0.9, 0.9).
    Unit,
    /// Within (0.05, 0.95).
    Probability,
    /// Within (0.1, 0.9).
    Fraction,
    /// Integers from 0 up to a bound.
    Index(i64),
    /// True and false.
    Mask,
    /// Symmetric matrices whose eigenvalues are positive.
    Definite,
    /// LAPACK pivots, 1-based. Pivot `i` is `i` or `i + 1`.
    Pivots,
}

/// One argument of a sample.
#[derive(Clone, Debug)]
pub enum SampleArg {
    /// `None`, or the schema's default.
    Default,
    /// A tensor of these sizes. A floating-point tensor gets the dtype under test, and `requires_grad` if gradients are
    /// tested.
    Tensor(Vec<usize>, Fill),
    /// A tensor of these sizes and this dtype, whatever dtype is under test.
    Of(Vec<usize>, Fill, DType),
    /// A tensor of these sizes, transposed in its last two dimensions, so that it is not contiguous.
    Transposed(Vec<usize>, Fill),
    /// Tensors of these sizes.
    Tensors(Vec<Vec<usize>>, Fill),
    /// A list with missing tensors, as advanced indexing accepts it.
    OptTensors(Vec<Option<(Vec<usize>, Fill)>>),
    /// A number.
    Scalar(Scalar),
    /// Integers.
    Ints(Vec<i64>),
    /// Floats.
    Floats(Vec<f64>),
    /// Numbers.
    Scalars(Vec<Scalar>),
    /// A string.
    Str(&'static str),
    /// A dtype.
    DType(DType),
}

/// Arguments to test a row with.
#[derive(Clone, Debug)]
pub struct Sample {
    /// One argument for each parameter of the schema, in order. Missing ones at the end get their defaults.
    pub args: Vec<SampleArg>,
    /// Dtypes to test beside `float32`; empty for the default set of the test.
    pub dtypes: &'static [DType],
    /// Whether gradients with respect to the floating-point tensors can be compared with finite differences.
    pub gradient: bool,
    /// Whether no dtypes but `dtypes` are tested, because the op takes only complex numbers.
    pub only: bool,
    /// Whether the result is random. Then only its description can be checked, and that a seed repeats it.
    pub random: bool,
}

impl Sample {
    /// A differentiable sample.
    pub fn new(args: Vec<SampleArg>) -> Sample {
        Sample { args, dtypes: &[], gradient: true, only: false, random: false }
    }
    /// Compare no gradients: the arguments are integers or random, or lie near kinks.
    pub fn no_gradient(mut self) -> Sample {
        self.gradient = false;
        self
    }
    /// Test with complex numbers only.
    pub fn complex(mut self) -> Sample {
        (self.dtypes, self.only) = (&[DType::C64, DType::C128], true);
        self
    }
    /// Mark the result as random.
    pub fn random(mut self) -> Sample {
        (self.gradient, self.random) = (false, true);
        self
    }
    /// Test further dtypes.
    pub fn dtypes(mut self, dtypes: &'static [DType]) -> Sample {
        self.dtypes = dtypes;
        self
    }
}

/// A tensor for a sample.
pub fn t(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Normal)
}
/// A tensor of positive numbers.
pub fn positive(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Positive)
}
/// A tensor of numbers within (-1, 1).
pub fn unit(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Unit)
}
/// A tensor of numbers within (0, 1).
pub fn probability(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Probability)
}
/// A tensor of integers below a bound.
pub fn index(dims: &[usize], bound: i64) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Index(bound))
}
/// A tensor of truth values.
pub fn mask(dims: &[usize]) -> SampleArg {
    SampleArg::Tensor(dims.to_vec(), Fill::Mask)
}
/// Two tensors in a list.
pub fn two(a: &[usize], b: &[usize]) -> SampleArg {
    SampleArg::Tensors(vec![a.to_vec(), b.to_vec()], Fill::Normal)
}
/// A number.
pub fn n(v: impl Into<Scalar>) -> SampleArg {
    SampleArg::Scalar(v.into())
}
/// Integers.
pub fn ints(v: &[i64]) -> SampleArg {
    SampleArg::Ints(v.to_vec())
}
/// Build a [`Sample`] list from bracketed argument lists.
#[macro_export]
macro_rules! samples {
    ($([$($arg:expr),* $(,)?]),* $(,)?) => { || vec![$($crate::schema::Sample::new(vec![$($arg),*])),*] };
}
