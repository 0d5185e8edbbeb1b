//! Windows of fixed sizes, and PyTorch's errors about them.

use super::Windows;
use crate::schema::Args;
use crate::{Dims, Error, Result, Tensor};
use torchtpu_kernels::pool::PoolSpec;

/// Numeric arguments of a pooling with fixed windows.
pub(super) struct Fixed<'a> {
    pub(super) name: &'static str,
    /// Whether maxima are taken instead of means.
    pub(super) of_max: bool,
    pub(super) kernel: &'a [i64],
    pub(super) stride: &'a [i64],
    pub(super) padding: &'a [i64],
    pub(super) dilation: &'a [i64],
    pub(super) ceil: bool,
}

/// Sizes of a window along one dimension.
#[derive(Clone, Copy, Default)]
struct Along {
    kernel: i64,
    stride: i64,
    pad: i64,
    dilation: i64,
}

impl Along {
    /// Elements from the first to the last one of a window.
    fn extent(&self) -> Result<i64> {
        let Along { kernel, dilation, .. } = *self;
        let extent = (kernel - 1).checked_mul(dilation).and_then(|n| n.checked_add(1));
        extent.ok_or_else(|| {
            Error::runtime(format!(
                "effective kernel size overflows, but got kernel_size={kernel} and dilation={dilation}"
            ))
        })
    }
    /// The number of windows over `n` elements.
    fn count(&self, n: i64, ceil: bool) -> Result<i64> {
        let room = (n + 2 * self.pad).saturating_sub(self.extent()?);
        let room = if ceil { room.saturating_add(self.stride - 1) } else { room };
        let count = room.div_euclid(self.stride) + 1;
        // The last window must start within the input or the padding before it.
        let outside = ceil && (count - 1).saturating_mul(self.stride) >= n + self.pad;
        Ok(count - i64::from(outside))
    }
    fn check(&self) -> Result<()> {
        let Along { kernel, stride, pad, dilation } = *self;
        if stride == 0 {
            return Err(Error::runtime("stride should not be zero"));
        }
        if pad < 0 {
            return Err(Error::runtime(format!("pad must be non-negative, but got pad: {pad}")));
        }
        if pad > self.extent()? / 2 {
            return Err(Error::runtime(format!(
                "pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={kernel} and \
                dilation={dilation}"
            )));
        }
        Ok(())
    }
}

/// Check the arguments `self, kernel_size, stride, padding, dilation, ceil_mode` of `max_pool1d`.
pub(super) fn check_max_pool1d(a: &Args<'_>) -> Result<()> {
    let fail = |what: String| Err(Error::runtime(format!("max_pool1d() {what}")));
    let d = a.tensor(0)?.dims();
    if !is_filled(d, 1) {
        return Err(Error::runtime(format!(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{d}"
        )));
    }
    let (kernel, stride, padding, dilation) = (a.ints(1)?, a.ints(2)?, a.ints(3)?, a.ints(4)?);
    for (name, list, kinds) in [
        ("kernel_size", kernel, "an int, list of ints or tuple of ints"),
        ("stride", stride, "None, an int, list of ints, or tuple of ints"),
        ("padding", padding, "an int, list of ints, or tuple of ints"),
        ("dilation", dilation, "an int, list of ints or tuple of ints"),
    ] {
        if list.len() != 1 && !(name == "stride" && list.is_empty()) {
            return fail(format!("{name} must be {kinds} of size 1 but got size {}", list.len()));
        }
    }
    let (kernel, pad, dilation) = (kernel[0], padding[0], dilation[0]);
    let w = Along { kernel, stride: stride.first().copied().unwrap_or(kernel), pad, dilation };
    for (name, n) in [("kernel_size", kernel), ("stride", w.stride)] {
        if n <= 0 {
            return fail(format!("{name} must be greater than zero, but got {n}"));
        }
    }
    if pad < 0 {
        return fail(format!("padding must be non-negative, but got {pad}"));
    }
    if pad > kernel / 2 {
        return fail(format!(
            "padding should be at most half of kernel size, but got padding={pad} and kernel_size={kernel}"
        ));
    }
    if dilation <= 0 {
        return fail(format!("dilation must be greater than zero, but got {dilation}"));
    }
    match w.count(d[d.len() - 1] as i64, a.bool(5)?)? {
        n if n < 1 => fail(format!("Invalid computed output size: {n}")),
        _ => Ok(()),
    }
}

/// Whether sizes are `[n, c, *s]` or `[c, *s]`, and only the batch size may be zero.
pub(super) fn is_filled(d: &Dims, spatial: usize) -> bool {
    (d.len() == spatial + 1 || d.len() == spatial + 2) && d[d.len() - spatial - 1..].iter().all(|&n| n > 0)
}

impl Fixed<'_> {
    /// One number for each dimension.
    fn each(&self, v: &[i64], spatial: usize, what: &str) -> Result<[i64; 3]> {
        let name = self.name;
        if v.len() != 1 && v.len() != spatial {
            let ints = if spatial == 2 { "two" } else { "three" };
            let omitted = if what == "stride" { "omitted, " } else { "" };
            return Err(Error::runtime(match (spatial, what) {
                (1, _) => format!("{name}() argument '{what}' should contain one int (got {})", v.len()),
                (3, _) if !self.of_max => {
                    format!("{name}: {what} must be {omitted}a single int, or a tuple of {ints} ints")
                }
                (_, "dilation") => format!("{name}: dilation must be either a single int, or a tuple of {ints} ints"),
                _ => format!("{name}: {what} must either be {omitted}a single int, or a tuple of {ints} ints"),
            }));
        }
        let is_max_pool1d = spatial == 1 && self.of_max;
        if !is_max_pool1d && v.iter().any(|&n| i32::try_from(n).is_err()) {
            return Err(Error::runtime("value cannot be converted to type int without overflow"));
        }
        Ok(std::array::from_fn(|d| v.get(d).or(v.first()).copied().filter(|_| d < spatial).unwrap_or(1)))
    }

    /// The windows over `x` with `spatial` spatial dimensions.
    pub(super) fn windows(&self, x: &Tensor, spatial: usize) -> Result<Windows> {
        let (d, name) = (x.dims(), self.name);
        if d.len() != spatial + 1 && d.len() != spatial + 2 {
            return Err(Error::runtime(match spatial {
                1 => format!(
                    "Expected 2 to 3 dimensions, but got {}-dimensional tensor for argument #1 'self' (while checking \
                    arguments for {name})",
                    d.len()
                ),
                s => format!("non-empty {}D or {}D (batch mode) tensor expected for input", s + 1, s + 2),
            }));
        }
        let kernel = self.each(self.kernel, spatial, "kernel_size")?;
        let stride = if self.stride.is_empty() { kernel } else { self.each(self.stride, spatial, "stride")? };
        let (pad, dilation) =
            (self.each(self.padding, spatial, "padding")?, self.each(self.dilation, spatial, "dilation")?);
        let along: [Along; 3] =
            std::array::from_fn(|i| Along { kernel: kernel[i], stride: stride[i], pad: pad[i], dilation: dilation[i] });
        let along = &along[..spatial];
        along.iter().try_for_each(Along::check)?;
        // One dimension is treated as the second of two; windows of the first have one element.
        let flat = (spatial == 1).then_some(1);
        for (v, what, prefix) in [
            (kernel, "kernel size should be greater than zero, but got", "k"),
            (stride, "stride should be greater than zero, but got", "d"),
            (dilation, "dilation should be greater than zero, but got", "dilation"),
        ] {
            if v[..spatial].iter().any(|&n| n <= 0) {
                return Err(Error::runtime(format!(
                    "{what} {}",
                    lettered(prefix, flat.into_iter().chain(v[..spatial].iter().copied()))
                )));
            }
        }
        if !is_filled(d, spatial) {
            let mut sizes: Vec<usize> = d.to_vec();
            if spatial == 1 {
                sizes.insert(sizes.len() - 1, 1);
            }
            let at = (d.len() - spatial - 1..d.len()).find(|&i| d[i] == 0).unwrap_or(0);
            return Err(Error::runtime(match spatial {
                3 => format!(
                    "{}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {d} with \
                    dimension {at} being empty",
                    if self.of_max { "max_pool3d_with_indices_out_cpu_template" } else { name }
                ),
                _ => format!(
                    "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{sizes:?}"
                ),
            }));
        }
        let input: Vec<i64> = d[d.len() - spatial..].iter().map(|&n| n as i64).collect();
        if spatial == 3 && !self.of_max && input.iter().zip(&kernel).any(|(n, k)| n < k) {
            return Err(Error::runtime(format!(
                "input image ({}) smaller than kernel size ({})",
                lettered("", input.iter().copied()),
                lettered("k", kernel.into_iter())
            )));
        }
        let counts: Vec<i64> = along.iter().zip(&input).map(|(a, &n)| a.count(n, self.ceil)).collect::<Result<_>>()?;
        if counts.iter().any(|&n| n < 1) {
            let lead = d[d.len() - spatial - 1] as i64;
            let list = |v: &[i64]| {
                let all: Vec<String> =
                    std::iter::once(lead).chain(flat).chain(v.iter().copied()).map(|n| n.to_string()).collect();
                all.join("x")
            };
            return Err(Error::runtime(format!(
                "Given input size: ({}). Calculated output size: ({}). Output size is too small",
                list(&input),
                list(&counts)
            )));
        }
        let mut w = Windows {
            spec: PoolSpec { spatial, kernel: [1; 3], stride: [1; 3], pad: [0; 3], dilation: [1; 3] },
            out: [1; 3],
            adaptive: false,
        };
        for (i, a) in along.iter().enumerate() {
            w.spec.kernel[i] = a.kernel as usize;
            w.spec.stride[i] = a.stride as usize;
            w.spec.pad[i] = a.pad as usize;
            w.spec.dilation[i] = a.dilation as usize;
            w.out[i] = counts[i] as usize;
        }
        Ok(w)
    }
}

/// `kT: 1 kH: 2 kW: 3`.
fn lettered(prefix: &str, v: impl Iterator<Item = i64>) -> String {
    let v: Vec<i64> = v.collect();
    let letters = &["T", "H", "W"][3 - v.len()..];
    let parts: Vec<String> = letters.iter().zip(&v).map(|(letter, n)| format!("{prefix}{letter}: {n}")).collect();
    parts.join(" ")
}
