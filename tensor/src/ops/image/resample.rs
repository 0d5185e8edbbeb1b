//! Resizing of spatial dimensions by nearest, linear and cubic interpolation, with and without antialiasing.

use crate::axes::{Axes, all_whole};
use crate::op::{F64, Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::ops::pool::contract;
use crate::policy::{Policies, Policy};
use crate::schema::{Args, Ret, Row, Sample, SampleArg, Scope, Tier, ints, n, t};
use crate::{DType, Error, Meta, Result, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::memory;
use torchtpu_kernels::resample as kernels;
use torchtpu_kernels::resample::Taps;
use torchtpu_stablehlo::{ElementType, ScatterKind, Type};

/// The weights of inputs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Filter {
    /// The input whose area contains the output's edge.
    Nearest,
    /// The input whose area contains the output's centre.
    NearestExact,
    /// The two nearest inputs, weighted by distance.
    Linear,
    /// The four nearest inputs, weighted by Keys' cubic.
    Cubic,
    /// The six nearest inputs, weighted by a windowed sinc; only with antialiasing.
    Lanczos,
}

/// The resizing of one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    /// Size before.
    pub input: usize,
    /// Size after.
    pub output: usize,
    /// Inputs for each output, if it is not the ratio of the sizes.
    pub step: Option<F64>,
}

/// Resizes the last dimensions, each by a matrix with few entries in a row.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[.., *s]` | floating point, or `uint8` |
/// | y | `[.., *os]` | as x |
///
/// 16-bit floats are computed in `f32`. `uint8` is computed in whole numbers with weights of 16 bits, and rounded after
/// each dimension. The adjoint applies the transposed matrices: it maps `[.., *os]` to `[.., *s]`. The op is linear, so
/// nothing is saved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Resample {
    /// The dimensions; entries from `spatial` on are ignored.
    pub axes: [Axis; 3],
    /// Their number.
    pub spatial: usize,
    /// The weights.
    pub filter: Filter,
    /// Whether the centres of the first and last elements coincide, instead of their edges.
    pub align_corners: bool,
    /// Whether the filter is widened when shrinking, so that every input counts.
    pub antialias: bool,
    /// Whether this is the gradient.
    pub adjoint: bool,
}

/// Keys' cubic with a given slope.
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * a
    } else {
        0.0
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (x * std::f64::consts::PI).sin() / (x * std::f64::consts::PI) }
}

impl Filter {
    /// Number of inputs under the filter.
    fn width(self) -> f64 {
        match self {
            Filter::Nearest | Filter::NearestExact => 1.0,
            Filter::Linear => 2.0,
            Filter::Cubic => 4.0,
            Filter::Lanczos => 6.0,
        }
    }
    /// Weight at a distance.
    fn weight(self, x: f64, antialias: bool) -> f64 {
        match self {
            Filter::Nearest | Filter::NearestExact => 1.0,
            Filter::Linear => (1.0 - x.abs()).max(0.0),
            Filter::Cubic => cubic(x, if antialias { -0.5 } else { -0.75 }),
            Filter::Lanczos if x.abs() < 3.0 => sinc(x) * sinc(x / 3.0),
            Filter::Lanczos => 0.0,
        }
    }
}

impl Resample {
    fn axes(&self) -> &[Axis] {
        &self.axes[..self.spatial]
    }
    /// Inputs for each output.
    fn step(&self, a: &Axis) -> f64 {
        if self.align_corners && !matches!(self.filter, Filter::Nearest | Filter::NearestExact) {
            return if a.output > 1 { (a.input - 1) as f64 / (a.output - 1) as f64 } else { 0.0 };
        }
        a.step.map_or_else(|| a.input as f64 / a.output as f64, F64::get)
    }
    /// The matrix of a dimension; `None` for the identity. Positions are rounded as in PyTorch's arithmetic, because
    /// that decides which input is the nearest.
    fn taps(&self, a: &Axis, dtype: DType) -> Option<Taps> {
        let exact = dtype == DType::F64 || (dtype == DType::U8 && self.filter.width() > 1.0);
        let round = |v: f64| if exact { v } else { v as f32 as f64 };
        let step = round(self.step(a));
        let end = a.input - 1;
        let mut taps = Taps::new();
        for o in 0..a.output {
            let at = o as f64;
            if self.antialias {
                // The window and its weights are those of the widened filter, cropped at the edges.
                let (step, wide) = (self.step(a), self.step(a).max(1.0));
                let (support, centre) = (self.filter.width() / 2.0 * wide, step * (at + 0.5));
                let first = ((centre - support + 0.5) as i64).max(0) as usize;
                let last = ((centre + support + 0.5) as i64).clamp(0, a.input as i64) as usize;
                let weights: Vec<f64> =
                    (first..last).map(|i| self.filter.weight((i as f64 - centre + 0.5) / wide, true)).collect();
                let sum: f64 = weights.iter().sum();
                let sum = if sum == 0.0 { 1.0 } else { sum };
                taps.push(weights.iter().enumerate().map(|(i, w)| (first + i, w / sum)));
                continue;
            }
            let centre = |cubic: bool| {
                if self.align_corners {
                    return round(step * at);
                }
                let c = round(round(step * (at + 0.5)) - 0.5);
                if cubic { c } else { c.max(0.0) }
            };
            match self.filter {
                Filter::Nearest => taps.push([((round(step * at).floor() as usize).min(end), 1.0)]),
                Filter::NearestExact => taps.push([((round(step * (at + 0.5)).floor() as usize).min(end), 1.0)]),
                Filter::Linear if a.input == a.output => taps.push([(o, 1.0)]),
                Filter::Linear => {
                    let c = centre(false);
                    let low = (c as usize).min(end);
                    let part = (c - low as f64).clamp(0.0, 1.0);
                    taps.push([(low, 1.0 - part), ((low + 1).min(end), part)]);
                }
                Filter::Cubic | Filter::Lanczos => {
                    let c = centre(true);
                    let low = (c.floor() as i64).min(end as i64);
                    let part = (c - low as f64).clamp(0.0, 1.0);
                    // Inputs beyond the edge are merged into one entry. Its weight may be above one, for which
                    // whole-number weights have room.
                    let mut entries: Vec<(usize, f64)> = Vec::with_capacity(4);
                    for i in -1..3 {
                        let (p, w) =
                            ((low + i).clamp(0, end as i64) as usize, self.filter.weight(part - i as f64, false));
                        match entries.last_mut().filter(|e| e.0 == p) {
                            Some(e) => e.1 += w,
                            None => entries.push((p, w)),
                        }
                    }
                    taps.push(entries);
                }
            }
        }
        let identity = a.input == a.output
            && (0..a.output).all(|o| {
                taps.row(o).all(|e| taps.weights[e] == if taps.positions[e] == o { 1.0 } else { 0.0 })
                    && taps.row(o).any(|e| taps.positions[e] == o)
            });
        if identity {
            return None;
        }
        Some(if self.adjoint { taps.transposed(a.input) } else { taps })
    }
}

/// Whole-number weights of a matrix, and the number of their fraction bits.
fn whole(taps: &Taps) -> (Vec<i64>, u32) {
    let largest = taps.weights.iter().copied().fold(0.0, f64::max);
    let bits = (0..22).find(|p| (0.5 + largest * f64::from(1u32 << (p + 1))) as i64 >= 1 << 15).unwrap_or(22);
    let scale = f64::from(1u32 << bits);
    (taps.weights.iter().map(|w| (w * scale).round() as i64).collect(), bits)
}

impl Op for Resample {
    const NAME: &'static str = "upsample";
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
    fn label(&self) -> &'static str {
        match (self.adjoint, self.antialias, self.filter, self.spatial) {
            (false, false, Filter::Nearest, 1) => "upsample_nearest1d",
            (false, false, Filter::Nearest, 2) => "upsample_nearest2d",
            (false, false, Filter::Nearest, _) => "upsample_nearest3d",
            (false, false, Filter::NearestExact, 1) => "upsample_nearest_exact1d",
            (false, false, Filter::NearestExact, 2) => "upsample_nearest_exact2d",
            (false, false, Filter::NearestExact, _) => "upsample_nearest_exact3d",
            (false, false, Filter::Linear, 1) => "upsample_linear1d",
            (false, false, Filter::Linear, 2) => "upsample_bilinear2d",
            (false, false, Filter::Linear, _) => "upsample_trilinear3d",
            (false, false, Filter::Cubic, _) => "upsample_bicubic2d",
            (false, true, Filter::Linear, _) => "upsample_bilinear2d_aa",
            (false, true, Filter::Cubic, _) => "upsample_bicubic2d_aa",
            (false, true, Filter::Lanczos, _) => "upsample_lanczos2d_aa",
            (false, ..) => Self::NAME,
            (true, ..) => "upsample_backward",
        }
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let mut dims = *x[0].dims();
        let lead = dims.len() - self.spatial;
        for (d, a) in self.axes().iter().enumerate() {
            dims.set(lead + d, if self.adjoint { a.input } else { a.output });
        }
        Ok(x[0].meta().with_dims(dims))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let s = all_whole(self.spatial);
        Axes::parse(&format!("... {s} -> ... {s}"), x, y).linear(&[0b1])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let dtype = x[0].dtype();
        let taps: Vec<Option<Taps>> = self.axes().iter().map(|a| self.taps(a, dtype)).collect();
        if dtype != DType::U8 {
            kernels::resample(&x[0].view(), &taps, self.adjoint, &mut y[0].view_mut());
            return Ok(());
        }
        let axes: Vec<_> = taps
            .iter()
            .map(|t| {
                t.as_ref().map(|t| {
                    let (weights, bits) = whole(t);
                    (t, weights, bits)
                })
            })
            .collect();
        kernels::resample_bytes(&x[0].view(), &axes, &mut y[0].view_mut());
        Ok(())
    }
    /// Gather if every output is one input, else multiply by the matrix, which is built from its entries.
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let (dtype, lead) = (y[0].dtype, x[0].rank() - self.spatial);
        if y[0].numel() == 0 {
            return smallvec![f.splat(0.0, &y[0].ty())];
        }
        let e = x[0].element();
        let wide = match e {
            ElementType::U8 => ElementType::S32,
            e => e.widened(),
        };
        let mut v = x[0].clone();
        for (d, a) in self.axes().iter().enumerate().rev() {
            let Some(taps) = self.taps(a, dtype) else { continue };
            let positions: Vec<i64> = memory::collect(taps.positions.iter().map(|&p| p as i64));
            if positions.len() == taps.rows()
                && (0..taps.rows()).all(|r| taps.row(r).len() == 1 && taps.weights[r] == 1.0)
            {
                let at = f.dense_i64(&positions, &[positions.len()], ElementType::S64);
                v = f.take(&v, &at, lead + d);
                continue;
            }
            let inputs = v.shape()[lead + d];
            let (rows, size) = (taps.rows(), taps.rows() * inputs);
            let (weights, bits) = if wide == ElementType::S32 { whole(&taps) } else { (Vec::new(), 0) };
            let entries = (0..rows).flat_map(|r| taps.row(r).map(move |e| (r, e)));
            let flat: Vec<usize> = memory::collect(entries.map(|(r, e)| r * inputs + taps.positions[e]));
            let matrix = if size <= DENSE {
                let mut m = memory::filled(0.0, size);
                for (e, &at) in flat.iter().enumerate() {
                    m[at] += if bits > 0 { weights[e] as f64 } else { taps.weights[e] };
                }
                if bits > 0 {
                    let m: Vec<i64> = memory::collect(m.iter().map(|&w| w as i64));
                    f.dense_i64(&m, &[rows, inputs], wide)
                } else {
                    f.dense_f64(&m, &[rows, inputs], wide)
                }
            } else {
                let at: Vec<i64> = memory::collect(flat.iter().map(|&p| p as i64));
                let at = f.dense_i64(&at, &[at.len()], ElementType::S64);
                let w = if bits > 0 {
                    f.dense_i64(&weights, &[flat.len()], wide)
                } else {
                    f.dense_f64(&taps.weights, &[flat.len()], wide)
                };
                let zeros = f.splat(0.0, &Type::new(&[size], wide));
                let m = f.put(&zeros, &at, &w, 0, ScatterKind::Add);
                f.reshape(&m, &[rows, inputs])
            };
            v = f.convert(&v, wide);
            v = contract(f, &v, &matrix, lead + d, 1);
            if bits > 0 {
                let ty = v.ty().clone();
                let (half, shift) = (f.splat_i64(1 << (bits - 1), &ty), f.splat_i64(i64::from(bits), &ty));
                let (low, high) = (f.splat_i64(0, &ty), f.splat_i64(255, &ty));
                v = f.binary("stablehlo.add", &v, &half);
                v = f.binary("stablehlo.shift_right_arithmetic", &v, &shift);
                v = f.clamp(&low, &v, &high);
            }
        }
        smallvec![f.convert(&v, e)]
    }
    fn vjp(&self, _: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let op = Resample { adjoint: !self.adjoint, ..*self };
        Ok(smallvec![Some(dispatch::call(Prim::Resample(Box::new(op)), &[g])?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// The largest number of elements of a matrix that a program holds as a constant. Larger ones are built from their
/// entries.
const DENSE: usize = 1024;

// ------------------------------------------------------------------------------------------------ the public functions

/// The interpolation of a function of the family.
#[derive(Clone, Copy)]
struct Kind {
    spatial: usize,
    filter: Filter,
    antialias: bool,
}

impl Kind {
    /// PyTorch's name of the kernel, for errors about a dtype.
    fn kernel_name(self) -> &'static str {
        match (self.filter, self.spatial, self.antialias) {
            (.., true) => "compute_index_ranges_weights",
            (Filter::Nearest, 2, _) => "upsample_nearest2d_channels_last",
            (Filter::Nearest, ..) => "compute_indices_weights_nearest",
            (Filter::NearestExact, ..) => "compute_indices_weights_nearest",
            (Filter::Linear, 2, _) => "upsample_bilinear2d_channels_last",
            (Filter::Linear, ..) => "compute_indices_weights_linear",
            _ => "compute_indices_weights_cubic",
        }
    }
    fn takes(self, dtype: DType) -> bool {
        let bytes = matches!(self.filter, Filter::Nearest | Filter::NearestExact) || self.spatial == 2;
        dtype.is_float() || (bytes && dtype == DType::U8)
    }
    fn check(self, x: &Tensor, out: &[i64]) -> Result<()> {
        let (d, s) = (x.dims(), self.spatial);
        if out.len() != s {
            return Err(Error::runtime(format!(
                "It is expected output_size equals to {s}, but got size {}",
                out.len()
            )));
        }
        if d.len() != s + 2 {
            return Err(Error::runtime(format!(
                "It is expected input_size equals to {}, but got size {}",
                s + 2,
                d.len()
            )));
        }
        if d[2..].contains(&0) || out.iter().any(|&n| n <= 0) {
            let names = &["D", "H", "W"][3 - s..];
            let list =
                |v: Vec<String>| names.iter().zip(v).map(|(k, v)| format!("{k}: {v}")).collect::<Vec<_>>().join(", ");
            return Err(Error::runtime(format!(
                "Input and output sizes should be greater than 0, but got input ({}) output ({})",
                list(d[2..].iter().map(usize::to_string).collect()),
                list(out.iter().map(i64::to_string).collect())
            )));
        }
        if d[1] == 0 {
            return Err(Error::runtime(format!(
                "Non-empty {}D data tensor expected but got a tensor with sizes {d}",
                s + 2
            )));
        }
        if !self.takes(x.dtype()) {
            return Err(Error::not_implemented(format!(
                "\"{}\" not implemented for '{}'",
                self.kernel_name(),
                x.dtype().scalar_type()
            )));
        }
        Ok(())
    }
    fn resample(self, x: &Tensor, out: &[i64], align_corners: bool, scales: [Option<f64>; 3]) -> Result<Tensor> {
        self.check(x, out)?;
        let mut axes = [Axis { input: 1, output: 1, step: None }; 3];
        for (d, axis) in axes.iter_mut().enumerate().take(self.spatial) {
            let step = scales[d].filter(|&s| s > 0.0).map(|s| F64::new(1.0 / s));
            *axis = Axis { input: x.dims()[2 + d], output: out[d] as usize, step };
        }
        let op = Resample {
            axes,
            spatial: self.spatial,
            filter: self.filter,
            align_corners,
            antialias: self.antialias,
            adjoint: false,
        };
        dispatch::call(Prim::Resample(Box::new(op)), &[x])
    }
    /// Whether the function takes `align_corners`.
    fn has_corners(self) -> bool {
        !matches!(self.filter, Filter::Nearest | Filter::NearestExact)
    }
    /// Sizes, then a factor for each dimension.
    fn by_size(self, a: &Args<'_>) -> Result<Ret> {
        let first = 2 + usize::from(self.has_corners());
        let mut scales = [None; 3];
        for (d, s) in scales.iter_mut().enumerate().take(self.spatial) {
            *s = a.opt_float(first + d)?;
        }
        Ok(self.resample(a.tensor(0)?, a.ints(1)?, self.has_corners() && a.bool(2)?, scales)?.into())
    }
    /// Either sizes or factors.
    fn by_size_or_factors(self, a: &Args<'_>) -> Result<Ret> {
        let x = a.tensor(0)?;
        let factors = a.opt_floats(2 + usize::from(self.has_corners()))?;
        let (out, scales) = match (a.opt_ints(1)?, factors) {
            (Some(sizes), None) => (sizes.to_vec(), [None; 3]),
            (None, Some(factors)) => {
                let spatial = x.dims().get(2..).unwrap_or_default();
                if factors.len() != spatial.len() {
                    return Err(Error::runtime(format!(
                        "It is expected scale_factors equals to {}, but got size {}",
                        spatial.len(),
                        factors.len()
                    )));
                }
                let out = spatial.iter().zip(factors).map(|(&n, f)| (n as f64 * f) as i64).collect();
                let mut scales = [None; 3];
                scales.iter_mut().zip(factors).for_each(|(s, &f)| *s = Some(f));
                (out, scales)
            }
            _ => return Err(Error::runtime("Must specify exactly one of output_size and scale_factors")),
        };
        Ok(self.resample(x, &out, self.has_corners() && a.bool(2)?, scales)?.into())
    }
}

/// A small input with `spatial` spatial dimensions.
fn image(spatial: usize) -> SampleArg {
    t(&[&[2, 2][..], &[4, 3, 5][..spatial]].concat())
}

const TYPES: &[DType] = &[DType::F64, DType::BF16];

fn size_samples(k: Kind) -> Vec<Sample> {
    let sizes = |v: &[i64]| ints(&v[..k.spatial]);
    if !k.has_corners() {
        return vec![
            Sample::new(vec![image(k.spatial), sizes(&[6, 5, 7])]).dtypes(TYPES),
            Sample::new(vec![image(k.spatial), sizes(&[8, 2, 3]), n(2.0)]),
        ];
    }
    vec![
        Sample::new(vec![image(k.spatial), sizes(&[6, 5, 7]), n(false)]).dtypes(TYPES),
        Sample::new(vec![image(k.spatial), sizes(&[7, 1, 3]), n(true)]),
        Sample::new(vec![image(k.spatial), sizes(&[3, 40, 2]), n(false), n(0.8)]),
    ]
}

fn factor_samples(k: Kind) -> Vec<Sample> {
    let floats = SampleArg::Floats([2.0, 1.7, 0.5][..k.spatial].to_vec());
    let mut args = vec![image(k.spatial), SampleArg::Default];
    if k.has_corners() {
        args.push(n(false));
    }
    args.push(floats);
    vec![Sample::new(args)]
}

/// Two rows for each function: by sizes, and by sizes or factors.
macro_rules! resample_rows {
    ($($spatial:literal $filter:ident $aa:literal $by_size:literal $doc:literal $by_either:literal;)*) => {
        /// Rows of the family.
        pub const ROWS: &[Row] = &[$(
            {
                const KIND: Kind = Kind { spatial: $spatial, filter: Filter::$filter, antialias: $aa };
                Row::new($by_size, Tier::Prim, |a| KIND.by_size(a), ||
                    size_samples(KIND)).doc($doc).scope(Scope::Nn).autocast(Policies::accelerator(Policy::Full))
            },
            {
                const KIND: Kind = Kind { spatial: $spatial, filter: Filter::$filter, antialias: $aa };
                Row::new($by_either, Tier::Prim, |a| KIND.by_size_or_factors(a), ||
                    factor_samples(KIND)).scope(Scope::Nn).autocast(Policies::accelerator(Policy::Full))
            },
        )*];
    };
}

resample_rows! {
    1 Nearest false "upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"
        "Return `input` `(n, c, l)` resized to `(n, c, output_size)`, where output `i` copies input `floor(i * \
         step)`. `step` is the quotient of the sizes, or `1 / scales` where that is given. `scale_factors` may stand \
         for `output_size`: the output then has `floor(size * factor)` elements. Floating point, or `uint8`."
        "upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    2 Nearest false "upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? \
        scales_w=None) -> Tensor"
        "Return `input` `(n, c, h, w)` resized to `output_size`, where output `(i, j)` copies input `(floor(i * sh), \
         floor(j * sw))`. The steps `sh` and `sw` are the quotients of the sizes, or `1 / scales_h` and `1 / \
         scales_w` where these are given. `scale_factors` may stand for `output_size`: the output then has \
         `floor(size * factor)` elements. Floating point, or `uint8`."
        "upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    3 Nearest false "upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? \
        scales_h=None, float? scales_w=None) -> Tensor"
        "Return `input` `(n, c, d, h, w)` resized to `output_size`, where output `i` along a dimension copies input \
         `floor(i * step)` there. `step` is the quotient of the sizes, or the inverse of `scales_d`, `scales_h` or \
         `scales_w` where that is given. `scale_factors` may stand for `output_size`: the output then has `floor(size \
         * factor)` elements. Floating point, or `uint8`."
        "upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    1 NearestExact false "_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"
        "Return `input` `(n, c, l)` resized to `(n, c, output_size)`, where output `i` copies input `floor((i + 0.5) \
         * step)`, the one that holds its centre."
        "_upsample_nearest_exact1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    2 NearestExact false "_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? \
        scales_w=None) -> Tensor"
        "Return `input` `(n, c, h, w)` resized to `output_size`, where each pixel copies the input pixel that holds \
         its centre."
        "_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    3 NearestExact false "_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? \
        scales_h=None, float? scales_w=None) -> Tensor"
        "Return `input` `(n, c, d, h, w)` resized to `output_size`, where each voxel copies the input voxel that \
         holds its centre."
        "_upsample_nearest_exact3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
    1 Linear false "upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> \
        Tensor"
        "Return `input` `(n, c, l)` resized to `(n, c, output_size)` by linear interpolation between the two nearest \
         elements. `align_corners` lets the centres of the first and last elements coincide, else their outer edges \
         do. `scale_factors` may stand for `output_size`: the output then has `floor(size * factor)` elements. \
         Floating point."
        "upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> \
        Tensor";
    2 Linear false "upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, \
        float? scales_w=None) -> Tensor"
        "Return `input` `(n, c, h, w)` resized to `output_size` by linear interpolation along height and width. \
         `align_corners` lets the centres of the corner pixels coincide, else their outer edges do. `scale_factors` \
         may stand for `output_size`: the output then has `floor(size * factor)` elements. Floating point, or \
         `uint8`, which is rounded."
        "upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> \
        Tensor";
    3 Linear false "upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, \
        float? scales_h=None, float? scales_w=None) -> Tensor"
        "Return `input` `(n, c, d, h, w)` resized to `output_size` by linear interpolation along depth, height and \
         width. `align_corners` lets the centres of the corner voxels coincide, else their outer edges do. \
         `scale_factors` may stand for `output_size`: the output then has `floor(size * factor)` elements. Floating \
         point."
        "upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> \
        Tensor";
    2 Cubic false "upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, \
        float? scales_w=None) -> Tensor"
        "Return `input` `(n, c, h, w)` resized to `output_size` by cubic interpolation of the four nearest pixels \
         along height and width. The kernel is that of Keys with slope -0.75, so results may leave the range of the \
         input. `align_corners` lets the centres of the corner pixels coincide, else their outer edges do. \
         `scale_factors` may stand for `output_size`: the output then has `floor(size * factor)` elements. Floating \
         point, or `uint8`, which is rounded and clamped."
        "upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> \
        Tensor";
    2 Linear true "_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? \
        scales_h=None, float? scales_w=None) -> Tensor"
        "Return `input` `(n, c, h, w)` resized to `output_size` by linear interpolation, with a filter that widens \
         where the image shrinks."
        "_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) \
        -> Tensor";
    2 Cubic true "_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, \
        float? scales_w=None) -> Tensor"
        "Return `input` `(n, c, h, w)` resized to `output_size` by cubic interpolation of slope -0.5, with a filter \
         that widens where the image shrinks."
        "_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) \
        -> Tensor";
    2 Lanczos true "_upsample_lanczos2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? \
        scales_h=None, float? scales_w=None) -> Tensor"
        "Return `input` `(n, c, h, w)` resized to `output_size` with a Lanczos filter of radius 3, which widens where \
         the image shrinks."
        "_upsample_lanczos2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) \
        -> Tensor";
}
