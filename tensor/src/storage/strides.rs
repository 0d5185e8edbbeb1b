//! Strides of new tensors, by PyTorch's rules.
//!
//! A result is row major if all operands are. Otherwise element-wise results, copies and tensors made "like" another
//! keep the operand's order of dimensions. On `cpu` memory has that order too. On `tpu` strides are only reported: a
//! value has the compiler's layout.

use crate::{Dims, Error, Result, Tensor};
use smallvec::{SmallVec, smallvec};

/// The order of elements in memory, as `torch.memory_format`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryFormat {
    /// Row major.
    Contiguous,
    /// The format of the tensor that is copied.
    Preserve,
    /// Channels of `(n, c, h, w)` are densest.
    ChannelsLast,
    /// Channels of `(n, c, d, h, w)` are densest.
    ChannelsLast3d,
}

impl MemoryFormat {
    /// The format of a name: `contiguous_format`, `preserve_format`, `channels_last` or `channels_last_3d`.
    pub fn from_name(name: &str) -> Option<MemoryFormat> {
        Some(match name {
            "contiguous_format" => MemoryFormat::Contiguous,
            "preserve_format" => MemoryFormat::Preserve,
            "channels_last" => MemoryFormat::ChannelsLast,
            "channels_last_3d" => MemoryFormat::ChannelsLast3d,
            _ => return None,
        })
    }

    /// The name that [`MemoryFormat::from_name`] takes.
    pub fn name(self) -> &'static str {
        match self {
            MemoryFormat::Contiguous => "contiguous_format",
            MemoryFormat::Preserve => "preserve_format",
            MemoryFormat::ChannelsLast => "channels_last",
            MemoryFormat::ChannelsLast3d => "channels_last_3d",
        }
    }

    /// Strides of a new tensor of these sizes.
    ///
    /// # Errors
    /// `Runtime` for sizes of another rank than the format's, and for `Preserve`, which needs a tensor.
    pub fn strides(self, dims: &Dims) -> Result<Dims> {
        let order: &[usize] = match self {
            MemoryFormat::Contiguous => return Ok(dims.contiguous_strides()),
            MemoryFormat::Preserve => {
                return Err(Error::runtime("unsupported memory format Preserve"));
            }
            MemoryFormat::ChannelsLast if dims.len() != 4 => {
                return Err(Error::runtime("required rank 4 tensor to use channels_last format"));
            }
            MemoryFormat::ChannelsLast => &[0, 2, 3, 1],
            MemoryFormat::ChannelsLast3d if dims.len() != 5 => {
                return Err(Error::runtime("required rank 5 tensor to use channels_last_3d format"));
            }
            MemoryFormat::ChannelsLast3d => &[0, 2, 3, 4, 1],
        };
        let mut strides = *dims;
        strides.edit(|s| {
            let mut step = 1usize;
            for &d in order.iter().rev() {
                s[d] = step;
                step = step.wrapping_mul(dims[d]);
            }
        });
        Ok(strides)
    }

    /// Strides of a copy of `x` in this format.
    ///
    /// # Errors
    /// The errors of [`MemoryFormat::strides`].
    pub fn strides_like(self, x: &Tensor) -> Result<Dims> {
        match self {
            MemoryFormat::Preserve => Ok(preserved(x)),
            _ => self.strides(x.dims()),
        }
    }
}

impl Tensor {
    /// Whether memory has the elements in this format, without gaps.
    pub fn is_contiguous_in(&self, format: MemoryFormat) -> bool {
        let order: &[usize] = match format {
            MemoryFormat::Contiguous | MemoryFormat::Preserve => return self.has_contiguous_strides(),
            MemoryFormat::ChannelsLast => &[1, 3, 2, 0],
            MemoryFormat::ChannelsLast3d => &[1, 4, 3, 2, 0],
        };
        lies_in(self.dims(), self.strides(), order)
    }

    /// The channels-last format whose order of dimensions the strides have; `Contiguous` for other strides, and if
    /// sizes of one leave the order open.
    pub fn suggested_format(&self) -> MemoryFormat {
        let (dims, strides) = (self.dims(), self.strides());
        let (order, format): (&[usize], _) = match dims.len() {
            4 => (&[1, 3, 2, 0], MemoryFormat::ChannelsLast),
            5 => (&[1, 4, 3, 2, 0], MemoryFormat::ChannelsLast3d),
            _ => return MemoryFormat::Contiguous,
        };
        let mut least = 0;
        if strides[1] == 0 {
            return MemoryFormat::Contiguous;
        }
        for &d in order {
            if dims[d] == 0 || strides[d] < least || d == 0 && least == strides[1] {
                return MemoryFormat::Contiguous;
            }
            least = strides[d] * dims[d].max(1);
        }
        format
    }

    /// Whether the elements fill a range of memory, each place once, in any order of dimensions.
    pub fn is_dense(&self) -> bool {
        self.has_contiguous_strides() || is_dense(self.dims(), self.strides())
    }

    /// This result with the strides that an element-wise function of these operands gives it. It was computed in steps
    /// that took them in another order.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn in_order_of(self, x: &[&Tensor]) -> Result<Tensor> {
        if self.is_plain() && x.iter().all(|t| t.is_plain()) {
            return Ok(self);
        }
        let strides = elementwise(x, self.dims()).unwrap_or_else(|| self.dims().contiguous_strides());
        if *self.strides() == strides { Ok(self) } else { self.copy_strided(strides) }
    }

    /// A copy with these strides, which leave no gaps.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn copy_strided(&self, strides: Dims) -> Result<Tensor> {
        crate::dispatch::copy_with(self, strides)
    }

    /// This result of `x` in the channels-last format of `x`, if it has one.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn in_format_of(self, x: &Tensor) -> Result<Tensor> {
        if x.is_contiguous() || self.dims().len() != x.dims().len() {
            return Ok(self);
        }
        match x.suggested_format() {
            MemoryFormat::Contiguous => Ok(self),
            f if self.is_contiguous_in(f) => Ok(self),
            f => crate::dispatch::copy_with(&self, f.strides(self.dims())?),
        }
    }

    /// Dimensions from the one with the largest stride to the one with the smallest.
    pub(crate) fn memory_order(&self) -> Dims {
        let mut order: Dims = (0..self.dims().len()).collect();
        order.edit(|o| o.sort_by_key(|&d| (std::cmp::Reverse(self.strides()[d]), self.dims()[d] > 1)));
        order
    }
}

/// Whether dimensions lie in memory without gaps; the first one of `order` is densest.
fn lies_in(dims: &[usize], strides: &[usize], order: &[usize]) -> bool {
    let mut expected = 1;
    dims.len() == order.len()
        && order.iter().all(|&d| {
            let fits = dims[d] == 1 || strides[d] == expected;
            expected *= dims[d];
            fits
        })
}

/// [`Tensor::is_dense`] for a layout that is not row major.
pub(super) fn is_dense(dims: &[usize], strides: &[usize]) -> bool {
    let mut by_stride: SmallVec<[(usize, usize); 8]> =
        strides.iter().copied().zip(dims.iter().copied()).filter(|d| d.1 != 1).collect();
    by_stride.sort_unstable();
    let mut next = 1;
    by_stride.iter().all(|&(stride, n)| {
        let fits = n == 0 || stride == next;
        next *= n;
        fits
    })
}

/// Strides of a copy of `x`, as `torch.empty_like` chooses them: those of `x` if they have neither gaps nor overlaps,
/// else dense ones in the same order of dimensions.
pub fn preserved(x: &Tensor) -> Dims {
    let (dims, strides) = (x.dims(), x.strides());
    if x.is_dense() {
        return *strides;
    }
    let mut order: SmallVec<[usize; 8]> = (0..dims.len()).rev().collect();
    sort(&mut order, |a, b| compare(strides, dims, a, b));
    let mut out = *dims;
    out.edit(|out| {
        let mut step = 1usize;
        for &d in &order {
            out[d] = step;
            step = step.wrapping_mul(dims[d].max(1));
        }
    });
    out
}

/// Compare dimension `a`, which is the inner one so far, with `b` in one operand. The result is positive if they should
/// change places, and zero if this operand does not decide.
fn compare(strides: &[usize], dims: &[usize], a: usize, b: usize) -> i8 {
    match (strides[a], strides[b]) {
        (0, _) | (_, 0) => 0,
        (x, y) if x < y => -1,
        (x, y) if x > y => 1,
        _ => i8::from(dims[a] > dims[b]),
    }
}

/// Sort by a comparison that may leave pairs open, so that it is not transitive. The same steps as PyTorch's give the
/// same order.
fn sort(order: &mut [usize], compare: impl Fn(usize, usize) -> i8) {
    for i in 1..order.len() {
        let mut at = i;
        for before in (0..i).rev() {
            match compare(order[before], order[at]) {
                c if c > 0 => {
                    order.swap(before, at);
                    at = before;
                }
                c if c < 0 => break,
                _ => {}
            }
        }
    }
}

/// Strides of the result of an element-wise op with sizes `out`, by the rule of PyTorch's `TensorIterator`; `None` if
/// they are row major.
pub fn elementwise(x: &[&Tensor], out: &Dims) -> Option<Dims> {
    if out.is_empty() {
        return None;
    }
    // As in PyTorch, a number that comes first counts as having the same sizes.
    if x.iter().skip_while(|t| t.dims().is_empty()).all(|t| t.dims() == out) {
        if x.iter().all(|t| t.has_contiguous_strides()) {
            return None;
        }
        if out.len() == 4 && x.iter().all(|t| t.is_contiguous_in(MemoryFormat::ChannelsLast)) {
            return MemoryFormat::ChannelsLast.strides(out).ok();
        }
        if x.iter().all(|t| t.strides() == x[0].strides()) && x[0].is_dense() {
            return Some(*x[0].strides());
        }
    }
    let strides: SmallVec<[Dims; 4]> = x.iter().map(|t| crate::ops::pointwise::broadcast_strides(t, out)).collect();
    let mut order: SmallVec<[usize; 8]> = (0..out.len()).rev().collect();
    sort(&mut order, |a, b| strides.iter().map(|s| compare(s, out, a, b)).find(|c| *c != 0).unwrap_or(0));
    if order.iter().rev().enumerate().all(|(i, d)| i == *d) {
        return None;
    }
    let mut result: SmallVec<[usize; 8]> = smallvec![0; out.len()];
    let mut step = 1usize;
    for &d in &order {
        result[d] = step;
        step = step.wrapping_mul(out[d]);
    }
    Some(Dims::new(&result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Device};

    fn zeros(dims: &[usize]) -> Tensor {
        Tensor::zeros(dims, DType::F32, Device::CPU).unwrap()
    }

    #[test]
    fn results_keep_the_order_of_operands() {
        let x = zeros(&[3, 4]).t().unwrap();
        let y = x.add_scalar(1.0).unwrap();
        assert_eq!(y.strides()[..], [1, 4]);
        assert_eq!(x.copy().unwrap().strides()[..], [1, 4]);
        assert_eq!(x.contiguous().unwrap().strides()[..], [3, 1]);
        let z = y.add(&zeros(&[4, 3])).unwrap();
        assert_eq!(z.strides()[..], [1, 4]);
        assert_eq!(zeros(&[4, 3]).add(&y).unwrap().strides()[..], [3, 1]);
    }

    #[test]
    fn channels_last_is_recognised() {
        let x = zeros(&[2, 4, 5, 3]).permute(&[0, 3, 1, 2]).unwrap();
        assert_eq!(x.suggested_format(), MemoryFormat::ChannelsLast);
        assert!(x.is_contiguous_in(MemoryFormat::ChannelsLast));
        assert_eq!(MemoryFormat::ChannelsLast.strides(x.dims()).unwrap(), *x.strides());
        assert_eq!(zeros(&[2, 3, 4, 5]).suggested_format(), MemoryFormat::Contiguous);
    }
}
