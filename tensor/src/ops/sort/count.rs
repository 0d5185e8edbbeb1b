//! How often values occur: `bincount` and `histc`.

use super::{BINCOUNT, host, host_of_classes, ordered};
use crate::ops::complex::refuse;
use crate::ops::pointwise::kernel_error;
use crate::schema::{Row, Sample, SampleArg, Tier, index, n, t};
use crate::{DType, Device, Error, ErrorKind, Meta, Result, Tensor};
use torchtpu_kernels::sort as kernels;

/// `torch.bincount`. On a device the host reads the values.
///
/// # Errors
/// `Runtime` for values that are negative or not integers, or weights of another size.
pub fn bincount(x: &Tensor, weights: Option<&Tensor>, min: i64) -> Result<Tensor> {
    ordered("bincount_cpu", x)?;
    if x.dtype() == DType::Bool || x.dtype().is_float() {
        return Err(Error::not_implemented(format!(
            "\"bincount_cpu\" not implemented for '{}'",
            x.dtype().scalar_type()
        )));
    }
    if x.dims().len() != 1 || !(x.dtype().is_int() || x.dtype() == DType::Bool) {
        return Err(Error::runtime("bincount only supports 1-d non-negative integral inputs."));
    }
    if min < 0 {
        return Err(Error::runtime("minlength should be >= 0"));
    }
    let weights = match weights {
        Some(w) if w.dims() != x.dims() => {
            return Err(Error::runtime("weights should be 1-d and have the same length as input"));
        }
        Some(w) if w.dtype() == DType::F32 => Some(host(w, BINCOUNT)?),
        Some(w) => Some(host(w, BINCOUNT)?.to_dtype(DType::F64)?),
        None => None,
    };
    let values = if min == 0 { host_of_classes(x)? } else { host(x, BINCOUNT)? };
    let len = kernels::bincount_len(&values.view(), min as usize).map_err(kernel_error)?;
    let dtype = weights.as_ref().map_or(DType::I64, Tensor::dtype);
    let y = Tensor::empty(&Meta::new(&[len], dtype, Device::CPU))?;
    let w = weights.as_ref().map(Tensor::view);
    kernels::bincount(&values.view(), w.as_ref(), &mut y.view_mut()).map_err(kernel_error)?;
    y.to_device(x.place())
}

/// `torch.histc`. On a device the host reads the values.
///
/// # Errors
/// `Runtime` for a wrong number of bins or range.
pub fn histc(x: &Tensor, bins: i64, min: f64, max: f64) -> Result<Tensor> {
    if bins <= 0 {
        return Err(Error::runtime("bins must be > 0"));
    }
    refuse(x, ErrorKind::Type, &format!("aminmax not implemented for {}", x.dtype().scalar_type()))?;
    if x.dtype().is_stored() {
        return Err(crate::ops::complex::unsupported("histogram_cpu", x.dtype()));
    }
    if x.place().is_abstract() {
        return Tensor::empty(&Meta::new(&[bins as usize], x.dtype(), x.place()));
    }
    let y = Tensor::empty(&Meta::new(&[bins as usize], x.dtype(), Device::CPU))?;
    kernels::histc(&host(x, "histc.default")?.view(), min, max, &mut y.view_mut()).map_err(kernel_error)?;
    y.to_device(x.place())
}

fn flat(v: SampleArg) -> Vec<Sample> {
    vec![Sample::new(vec![v]).no_gradient()]
}

/// Rows of counts.
pub const ROWS: &[Row] = &[
    Row::new(
        "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
        Tier::Composed,
        |a| Ok(bincount(a.tensor(0)?, a.opt_tensor(1)?, a.int(2)?)?.into()),
        || {
            vec![
                Sample::new(vec![index(&[7], 4)]).no_gradient(),
                Sample::new(vec![index(&[7], 4), t(&[7]), n(6)]).no_gradient(),
            ]
        },
    )
    .doc(
        "Return how often each of the numbers 0, 1, ... occurs in the vector `input` of integers that are not \
         negative. The length is the largest number plus 1, and at least `minlength`. `weights` are summed instead \
         of counted. The result is `int64`, or with `weights` `float32` or `float64`.",
    ),
    Row::new(
        "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
        Tier::Composed,
        |a| Ok(histc(a.tensor(0)?, a.int(1)?, a.float(2)?, a.float(3)?)?.into()),
        || {
            let mut s = flat(t(&[9]));
            s.push(Sample::new(vec![t(&[9]), n(4), n(-1), n(1)]).no_gradient());
            s
        },
    )
    .doc(
        "Return the number of elements of `input` in each of `bins` equally wide bins from `min` to `max`, in the \
         dtype of `input`. Elements outside do not count; `max` belongs to the last bin. If `min` equals `max`, the \
         smallest and the greatest element are taken. A range that is not finite raises an error.",
    ),
];
