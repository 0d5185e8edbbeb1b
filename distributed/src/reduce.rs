//! Functions that combine the elements of ranks: [`ReduceOp`] and its loops on bytes.

use torchtpu_kernels::pointwise::{BinaryKind, binary_in_place};
use torchtpu_kernels::{Element, View, ViewMut};
use torchtpu_tensor::{DType, Error, Result, bf16, f16};

/// How a reduction combines the elements of all ranks. Names are those of `torch.distributed.ReduceOp`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ReduceOp {
    /// Add. Integers wrap, and `bool` is a logical or.
    Sum,
    /// Add, then divide by the number of ranks. Integers round toward zero.
    Avg,
    /// Multiply. Integers wrap, and `bool` is a logical and.
    Product,
    /// The smallest, NaN if one is NaN.
    Min,
    /// The largest, NaN if one is NaN.
    Max,
    /// Bitwise and of integers and `bool`.
    BAnd,
    /// Bitwise or of integers and `bool`.
    BOr,
    /// Bitwise exclusive or of integers and `bool`.
    BXor,
}

impl ReduceOp {
    /// Every function.
    pub const ALL: [ReduceOp; 8] = [
        ReduceOp::Sum,
        ReduceOp::Avg,
        ReduceOp::Product,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::BAnd,
        ReduceOp::BOr,
        ReduceOp::BXor,
    ];

    /// Return PyTorch's name.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "SUM",
            ReduceOp::Avg => "AVG",
            ReduceOp::Product => "PRODUCT",
            ReduceOp::Min => "MIN",
            ReduceOp::Max => "MAX",
            ReduceOp::BAnd => "BAND",
            ReduceOp::BOr => "BOR",
            ReduceOp::BXor => "BXOR",
        }
    }
}

/// A reduction of two arrays of one dtype: a [`ReduceOp`], and which operand comes first.
///
/// 16-bit floats are added in `f32` and rounded after each operand. See [`widened`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Combine {
    kind: BinaryKind,
    /// The dtype of the loop: `u8` for `bool`, and that of the parts for complex numbers.
    dtype: DType,
    x_first: bool,
}

impl Combine {
    /// Return the reduction by `op` of elements of `dtype`.
    ///
    /// # Errors
    /// Fails if the function is not defined for the dtype: any function of dtypes that are only stored, bitwise
    /// functions of floats, an order of complex numbers, a mean of `bool`.
    pub fn new(op: ReduceOp, dtype: DType) -> Result<Combine> {
        if dtype.is_stored() {
            return Err(Error::runtime("Invalid scalar type"));
        }
        if dtype.is_complex() && !matches!(op, ReduceOp::Sum | ReduceOp::Avg) {
            return Err(Error::value(format!("all_reduce does not support {} on complex tensors", op.name())));
        }
        if dtype.is_inexact() && matches!(op, ReduceOp::BAnd | ReduceOp::BOr | ReduceOp::BXor) {
            return Err(Error::value(format!("Cannot use ReduceOp.{} with non-integral dtype", op.name())));
        }
        if dtype == DType::Bool && op == ReduceOp::Avg {
            return Err(Error::value("Cannot use ReduceOp.AVG with Bool"));
        }
        let kind = match (op, dtype) {
            (ReduceOp::Sum | ReduceOp::Avg, _) => BinaryKind::Add,
            (ReduceOp::Product, _) => BinaryKind::Mul,
            (ReduceOp::Min, _) => BinaryKind::Minimum,
            (ReduceOp::Max, _) => BinaryKind::Maximum,
            (ReduceOp::BAnd, _) => BinaryKind::BitwiseAnd,
            (ReduceOp::BOr, _) => BinaryKind::BitwiseOr,
            (ReduceOp::BXor, _) => BinaryKind::BitwiseXor,
        };
        Ok(Combine { kind, dtype: dtype.to_real(), x_first: false })
    }

    /// Return the reduction with the received elements as first operand, or as second. The order decides the payload
    /// of a NaN, so that ranks with different orders would end with different bits.
    pub fn received_first(self, x_first: bool) -> Combine {
        Combine { x_first, ..self }
    }

    /// Combine `x` into `into`. Both have the same length, whole elements.
    pub fn apply(self, into: &mut [u8], x: &[u8]) {
        assert_eq!(into.len(), x.len());
        let size = self.dtype.size_bytes();
        let is_aligned = |p: *const u8| p.addr().is_multiple_of(size);
        if is_aligned(into.as_ptr()) && is_aligned(x.as_ptr()) {
            let n = [into.len() / size];
            let x = View::of_bytes(x, &n, &[1], self.dtype);
            self.run(&mut ViewMut::of_bytes(into, &n, &[1], self.dtype), &x);
            return;
        }
        match self.dtype {
            DType::I16 => self.copied(into, x, i16::from_le_bytes, i16::to_le_bytes),
            DType::I32 => self.copied(into, x, i32::from_le_bytes, i32::to_le_bytes),
            DType::I64 => self.copied(into, x, i64::from_le_bytes, i64::to_le_bytes),
            DType::F16 => self.copied(into, x, f16::from_le_bytes, f16::to_le_bytes),
            DType::BF16 => self.copied(into, x, bf16::from_le_bytes, bf16::to_le_bytes),
            DType::F32 => self.copied(into, x, f32::from_le_bytes, f32::to_le_bytes),
            DType::F64 => self.copied(into, x, f64::from_le_bytes, f64::to_le_bytes),
            _ => unreachable!("elements of one byte are aligned, and complex numbers are reduced as their parts"),
        }
    }

    fn run(self, into: &mut ViewMut, x: &View) {
        binary_in_place(self.kind, into, x, self.x_first).expect("`new` accepts only what has a loop");
    }

    /// Combine bytes that are not aligned, as a caller's buffer may be, through copies.
    fn copied<T: Element, const N: usize>(
        self,
        into: &mut [u8],
        x: &[u8],
        read: fn([u8; N]) -> T,
        write: fn(T) -> [u8; N],
    ) {
        let numbers = |bytes: &[u8]| bytes.as_chunks::<N>().0.iter().map(|&b| read(b)).collect::<Vec<T>>();
        let (mut a, b) = (numbers(into), numbers(x));
        let n = [a.len()];
        self.run(&mut ViewMut::of_slice(&mut a, &n, &[1]), &View::of_slice(&b, &n, &[1]));
        for (to, v) in into.as_chunks_mut::<N>().0.iter_mut().zip(a) {
            *to = write(v);
        }
    }
}

/// Return 16-bit floats as `f32`, so that a reduction of many operands rounds once; `None` for other dtypes.
pub(crate) fn widened(dtype: DType, data: &[u8]) -> Option<Vec<u8>> {
    let each =
        |read: fn([u8; 2]) -> f32| Some(data.as_chunks().0.iter().flat_map(|&v| read(v).to_le_bytes()).collect());
    match dtype {
        DType::F16 => each(|v| f16::from_le_bytes(v).to_f32()),
        DType::BF16 => each(|v| bf16::from_le_bytes(v).to_f32()),
        _ => None,
    }
}

/// Round `f32` elements to the 16-bit floats `data`.
pub(crate) fn narrow(dtype: DType, wide: &[u8], data: &mut [u8]) {
    let round = |v: f32| match dtype {
        DType::BF16 => bf16::from_f32(v).to_le_bytes(),
        _ => f16::from_f32(v).to_le_bytes(),
    };
    let wide = wide.as_chunks().0.iter().map(|&v| f32::from_le_bytes(v));
    data.as_chunks_mut().0.iter_mut().zip(wide).for_each(|(to, v)| *to = round(v));
}

/// Divide sums by the number of ranks, the second half of [`ReduceOp::Avg`].
pub(crate) fn divide(dtype: DType, data: &mut [u8], ranks: usize) {
    let n = ranks as i64;
    match dtype.to_real() {
        DType::Bool => {}
        DType::U8 => data.iter_mut().for_each(|v| *v = (i64::from(*v) / n) as u8),
        DType::I8 => data.iter_mut().for_each(|v| *v = (i64::from(v.cast_signed()) / n) as u8),
        DType::I16 => each(data, |v| ((i64::from(i16::from_le_bytes(v)) / n) as i16).to_le_bytes()),
        DType::I32 => each(data, |v| ((i64::from(i32::from_le_bytes(v)) / n) as i32).to_le_bytes()),
        DType::I64 => each(data, |v| (i64::from_le_bytes(v) / n).to_le_bytes()),
        DType::F16 => each(data, |v| f16::from_f32(f16::from_le_bytes(v).to_f32() / ranks as f32).to_le_bytes()),
        DType::BF16 => each(data, |v| bf16::from_f32(bf16::from_le_bytes(v).to_f32() / ranks as f32).to_le_bytes()),
        DType::F64 => each(data, |v| (f64::from_le_bytes(v) / ranks as f64).to_le_bytes()),
        _ => each(data, |v| (f32::from_le_bytes(v) / ranks as f32).to_le_bytes()),
    }
}

fn each<const N: usize>(data: &mut [u8], f: impl Fn([u8; N]) -> [u8; N]) {
    data.as_chunks_mut::<N>().0.iter_mut().for_each(|v| *v = f(*v));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_aligned_give_the_same_sums() {
        let bytes = |v: &[f32]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let add = Combine::new(ReduceOp::Sum, DType::F32).expect("floats have sums");
        for shift in 0..4 {
            let mut into = [vec![0; shift], bytes(&[1.0, 2.5, -3.0])].concat();
            add.apply(&mut into[shift..], &bytes(&[0.5, 0.25, 8.0]));
            assert_eq!(into[shift..], bytes(&[1.5, 2.75, 5.0]));
        }
    }

    #[test]
    fn functions_without_meaning_are_refused() {
        for op in ReduceOp::ALL {
            for dtype in DType::FULL {
                let bitwise = matches!(op, ReduceOp::BAnd | ReduceOp::BOr | ReduceOp::BXor);
                let sum = matches!(op, ReduceOp::Sum | ReduceOp::Avg);
                let refused = dtype.is_complex() && !sum
                    || dtype.is_inexact() && bitwise
                    || dtype == DType::Bool && op == ReduceOp::Avg;
                assert_eq!(Combine::new(op, dtype).is_err(), refused, "{op:?} of {dtype:?}");
            }
        }
    }
}
