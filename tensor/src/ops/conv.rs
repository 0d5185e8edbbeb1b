//! Convolutions. One primitive, `Conv`, is closed under differentiation; the plain and transposed functions are
//! composed of it.

use crate::axes::{Axes, Combine, all_whole};
use crate::lower::conv;
use crate::op::{
    Attribute, Attributes, Facts, Func, Fused, Grads, KernelFn, LowerFn, Op, Outs, Prim, Saved, Saves, Value, Values,
    VjpFn, all_dims, same_device,
};
use crate::policy::{Policies, Policy};
use crate::schema::{Row, Sample, SampleArg, Scope, Tier, ints, n, t};
use crate::types::compute::expect_float;
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch, samples};
use smallvec::smallvec;
use torchtpu_kernels::conv as kernels;
pub use torchtpu_kernels::conv::ConvSpec;

/// The general convolution over one to three dimensions (a cross-correlation, as in all libraries).
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[n, c, *s]` | floating point |
/// | w | `[o, c / groups, *k]` | as x |
/// | b | `[o]`, optional | as x |
/// | y | `[n, o, *os]` | as x |
///
/// The spec holds strides, padding on each side (negative crops), spread of input and kernel, reversal of the kernel,
/// and groups. C1: equal ranks, `2 + spatial`. C2: channels are `groups` times the kernel's. C3: groups divide the
/// outputs. C4: a window fits. Both gradients are convolutions again. Saves the operand that the other's gradient
/// needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Conv(pub ConvSpec);

fn spatial(d: &Dims) -> &[usize] {
    &d[2..]
}

/// `(2 x 2)`.
fn product_list(v: impl Iterator<Item = usize>) -> String {
    let items: Vec<String> = v.map(|n| n.to_string()).collect();
    format!("({})", items.join(" x "))
}

fn check_same_dtype(x: &[&Tensor]) -> Result<()> {
    let (input, weight) = (x[0].dtype(), x[1].dtype());
    if input == weight {
        return Ok(());
    }
    Err(Error::runtime(format!("expected scalar type {} but found {}", input.scalar_type(), weight.scalar_type())))
}

fn check_divisible(w: &Dims, groups: usize) -> Result<()> {
    if w[0].is_multiple_of(groups) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size {w} \
        instead"
    )))
}

/// The groups of a convolution of `x` with a weight of sizes `w`.
fn groups(x: &Meta, w: &Dims) -> usize {
    x.dims[1].checked_div(w[1]).unwrap_or(1).max(1)
}

impl Op for Conv {
    fn attributes(&self) -> Attributes {
        let s = &self.0;
        let ints = |sizes: &[usize]| Attribute::Ints(sizes.iter().map(|&n| n as i64).collect());
        vec![
            ("stride", ints(&s.stride[..s.spatial])),
            ("padding", Attribute::Pairs(s.pad[..s.spatial].to_vec())),
            ("dilation", ints(&s.w_dilation[..s.spatial])),
            ("groups", Attribute::Int(s.groups as i64)),
            ("is_transposed", Attribute::Bool(s.reverse || s.x_dilation != [1; 3])),
        ]
    }
    const NAME: &'static str = "convolution";
    const FACTS: Facts = Facts { autocast: Policies::both(Policy::Lower), ..Facts::NONE };
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (s, a, w) = (&self.0, x[0].dims(), x[1].dims());
        if let Some(b) = x.get(2)
            && b.dtype() != x[0].dtype()
        {
            return Err(Error::runtime(format!(
                "Input type ({}) and bias type ({}) should be the same",
                x[0].dtype().c_name(),
                b.dtype().c_name()
            )));
        }
        check_same_dtype(x)?;
        expect_float("slow_conv2d_cpu", x[0])?;
        if w.len() != 2 + s.spatial || a.len() != w.len() {
            return Err(Error::runtime(format!(
                "Given groups={}, expected weight to be at least {}-dimensional and of the input's rank, but got \
                weight of size {w} and input of size {a}",
                s.groups,
                2 + s.spatial
            ))); // C1
        }
        if s.groups == 0 {
            return Err(Error::runtime("non-positive groups is not supported"));
        }
        if w[0] < s.groups {
            return Err(Error::runtime(format!(
                "Given groups={}, expected weight to be at least {} at dimension 0, but got weight of size {w} instead",
                s.groups, s.groups
            )));
        }
        check_divisible(w, s.groups)?; // C3
        if a[1] != w[1] * s.groups {
            return Err(Error::runtime(format!(
                "Given groups={}, weight of size {w}, expected input{a} to have {} channels, but got {} channels \
                instead",
                s.groups,
                w[1] * s.groups,
                a[1]
            ))); // C2
        }
        if let Some(b) = x.get(2)
            && (b.dims().len() != 1 || b.dims()[0] != w[0])
        {
            return Err(Error::runtime(format!(
                "Given weight of size {w}, expected bias to be 1-dimensional with {} elements, but got bias of size {} \
                instead",
                w[0],
                b.dims()
            )));
        }
        let (mut dims, mut padded) = (Dims::new(&[a[0], w[0]]), Vec::new());
        for d in 0..s.spatial {
            let dilated = spread(a[2 + d], s.x_dilation[d]).min(i64::MAX as usize) as i64;
            let extent = dilated.saturating_add(s.pad[d].0).saturating_add(s.pad[d].1).max(0) as usize;
            padded.push((extent, spread(w[2 + d], s.w_dilation[d])));
            dims.push(s.output_size(d, a[2 + d], w[2 + d]));
        }
        if padded.iter().any(|(x, k)| x < k) {
            return Err(Error::runtime(format!(
                "Calculated padded input size per channel: {}. Kernel size: {}. Kernel size can't be greater than \
                actual input size",
                product_list(padded.iter().map(|p| p.0)),
                product_list(padded.iter().map(|p| p.1))
            ))); // C4
        }
        Ok(Meta { dims, dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let s = all_whole(self.0.spatial);
        let axes = Axes::parse(&format!("n (g i) {s}, (g o) i {s}, (g o) -> n (g o) {s}"), x, y);
        // The bias is added in one part only.
        let axes = axes.reduces("i", Combine::Sum);
        if x.len() > 2 { axes.once(0b100).linear(&[0b101, 0b110]) } else { axes.linear(&[0b01, 0b10]) }
    }
    fn resized(&self, x: &[Meta], _: &[Meta]) -> Conv {
        Conv(ConvSpec { groups: groups(&x[0], &x[1].dims), ..self.0 })
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let bias = x.get(2).map(|b| b.view());
        kernels::conv(&x[0].view(), &x[1].view(), bias.as_ref(), &self.0, &mut y[0].view_mut());
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let z = conv::convolution(f, &x[0], &x[1], &self.0, &y[0]);
        smallvec![match x.get(2) {
            Some(b) => {
                let b = f.broadcast_in_dim(b, &y[0].dims, &[1]);
                f.binary("stablehlo.add", &z, &b)
            }
            None => z,
        }]
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let gx = if s.needs(0) { Some(input_grad(self.0, s.meta(0).dims, g, s.x(1))?) } else { None };
        let gw = if s.needs(1) { Some(weight_grad(self.0, s.meta(1).dims, s.x(0), g)?) } else { None };
        let mut grads: Grads = smallvec![gx, gw];
        if s.len() > 2 {
            let around = all_dims(g.dims().len()) & !2;
            grads.push(if s.needs(2) { Some(crate::ops::reduce::sum_mask(g, around)?) } else { None });
        }
        Ok(grads)
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::inputs((needs >> 1 & 1) | (needs & 1) << 1)
    }
}

/// Extent of `n` elements at distance `dilation`.
pub(crate) fn spread(n: usize, dilation: usize) -> usize {
    if n == 0 { 0 } else { (n - 1).saturating_mul(dilation).saturating_add(1) }
}

fn input_grad(of: ConvSpec, x: Dims, g: &Tensor, w: &Tensor) -> Result<Tensor> {
    dispatch::call(Prim::ConvInputGrad(Box::new(ConvInputGrad { of, x })), &[g, w])
}

fn weight_grad(of: ConvSpec, w: Dims, x: &Tensor, g: &Tensor) -> Result<Tensor> {
    dispatch::call(Prim::ConvWeightGrad(Box::new(ConvWeightGrad { of, w })), &[x, g])
}

fn conv(spec: ConvSpec, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    dispatch::call(Prim::Conv(Box::new(Conv(spec))), &[x, w])
}

/// Gradient of [`Conv`] for its input, from `g: [n, o, *os]` and `w`. It is also the transposed convolution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConvInputGrad {
    /// The convolution whose gradient this is.
    pub of: ConvSpec,
    /// Sizes of that convolution's input.
    pub x: Dims,
}

/// Gradient of [`Conv`] for its weight, from `x` and `g: [n, o, *os]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConvWeightGrad {
    /// The convolution whose gradient this is.
    pub of: ConvSpec,
    /// Sizes of that convolution's weight.
    pub w: Dims,
}

fn with_spatial(lead: &[usize], from: &[usize]) -> Dims {
    lead.iter().chain(from).copied().collect()
}

/// The dimensions in the order `lead`, then the spatial ones, which are the last `spatial` of `lead.len() + spatial`.
fn order(lead: &[usize], spatial: usize) -> Vec<i64> {
    lead.iter().copied().chain(lead.len()..lead.len() + spatial).map(|i| i as i64).collect()
}

impl Fused for ConvInputGrad {
    const NAME: &'static str = "convolution_input_grad";
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        kernels::conv_input_grad(&x[0].view(), &x[1].view(), &o.of, &mut y[0].view_mut());
        Ok(())
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| smallvec![conv::input_grad(f, &x[0], &x[1], &o.of, &y[0])]);
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        // The op is linear in both operands and the adjoint of the convolution, so `g` here plays the part of the
        // convolution's input.
        let gg = if s.needs(0) { Some(conv(o.of, g, s.x(1))?) } else { None };
        let gw = if s.needs(1) { Some(weight_grad(o.of, s.meta(1).dims, g, s.x(0))?) } else { None };
        Ok(smallvec![gg, gw])
    });
    fn takes_complex(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        check_same_dtype(x)?;
        expect_float("slow_conv_transpose2d_cpu", x[0])?;
        Ok(Meta { dims: self.x, dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let s = all_whole(self.of.spatial);
        let axes = Axes::parse(&format!("n (g o) {s}, (g o) i {s} -> n (g i) {s}"), x, y);
        axes.reduces("o", Combine::Sum).linear(&[0b01, 0b10])
    }
    fn resized(&self, x: &[Meta], y: &[Meta]) -> ConvInputGrad {
        ConvInputGrad { of: ConvSpec { groups: groups(&y[0], &x[1].dims), ..self.of }, x: y[0].dims }
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (s, w) = (&self.of, x[1].dims());
        let (o, c, k) = (w[0], self.x[1], spatial(w));
        // The kernels of each group, with inputs and outputs exchanged.
        let (og, cg) = (o / s.groups, c / s.groups);
        let split = x[1].reshape_dims(with_spatial(&[s.groups, og, cg], k))?;
        let swapped = split.permute(&order(&[0, 2, 1], s.spatial))?.reshape_dims(with_spatial(&[c, og], k))?;
        let mut spec = *s;
        spec.reverse = !s.reverse;
        for d in 0..s.spatial {
            let kernel = spread(k[d], s.w_dilation[d]) as i64;
            let low = kernel - 1 - s.pad[d].0;
            let g = spread(x[0].dims()[2 + d], s.stride[d]) as i64;
            let reach = spread(self.x[2 + d], s.x_dilation[d]) as i64;
            spec.pad[d] = (low, reach - 1 + kernel - g - low);
            (spec.stride[d], spec.x_dilation[d]) = (s.x_dilation[d], s.stride[d]);
        }
        Ok(smallvec![conv(spec, x[0], &swapped)?])
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::inputs((needs >> 1 & 1) | (needs & 1) << 1)
    }
}

impl Fused for ConvWeightGrad {
    const NAME: &'static str = "convolution_weight_grad";
    const STRIDES: crate::op::Strides = crate::op::Strides::Format;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        kernels::conv_weight_grad(&x[0].view(), &x[1].view(), &o.of, &mut y[0].view_mut());
        Ok(())
    });
    const LOWER: Option<LowerFn<Self>> = Some(|o, f, x, y| smallvec![conv::weight_grad(f, &x[0], &x[1], &o.of, &y[0])]);
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let gx = if s.needs(0) { Some(input_grad(o.of, s.meta(0).dims, s.x(1), g)?) } else { None };
        let gg = if s.needs(1) { Some(conv(o.of, s.x(0), g)?) } else { None };
        Ok(smallvec![gx, gg])
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(Meta { dims: self.w, dtype: x[0].dtype(), place: same_device(x)? })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let s = all_whole(self.of.spatial);
        let axes = Axes::parse(&format!("n (g i) {s}, n (g o) {s} -> (g o) i {s}"), x, y);
        axes.reduces("n", Combine::Sum).linear(&[0b01, 0b10])
    }
    fn resized(&self, x: &[Meta], y: &[Meta]) -> ConvWeightGrad {
        ConvWeightGrad { of: ConvSpec { groups: groups(&x[0], &y[0].dims), ..self.of }, w: y[0].dims }
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (s, a, g) = (&self.of, x[0].dims(), x[1].dims());
        let (n, c, o) = (a[0], a[1], g[1]);
        let cg = c / s.groups;
        // Exchange batch and channels, so that the sum over the batch becomes a sum over channels.
        let split = x[0].reshape_dims(with_spatial(&[n, s.groups, cg], spatial(a)))?;
        let moved = split.permute(&order(&[2, 1, 0], s.spatial))?;
        let flat = moved.reshape_dims(with_spatial(&[cg, s.groups * n], spatial(a)))?;
        let kernel = x[1].permute(&order(&[1, 0], s.spatial))?;
        let mut spec = *s;
        spec.reverse = false;
        for d in 0..s.spatial {
            let window = spread(g[2 + d], s.stride[d]) as i64;
            let reach = spread(self.w[2 + d], s.w_dilation[d]) as i64;
            let input = spread(a[2 + d], s.x_dilation[d]) as i64;
            spec.pad[d].1 = reach - 1 + window - input - s.pad[d].0;
            (spec.stride[d], spec.w_dilation[d]) = (s.w_dilation[d], s.stride[d]);
        }
        let y = conv(spec, &flat, &kernel)?;
        debug_assert_eq!(y.dims()[..2], [cg, o]);
        let y = y.permute(&order(&[1, 0], s.spatial))?;
        if !s.reverse {
            return Ok(smallvec![y.contiguous()?]);
        }
        let dims: Vec<i64> = (2..2 + s.spatial as i64).collect();
        Ok(smallvec![crate::ops::concat::flip(&y, &dims)?])
    }
    fn saves(&self, needs: u64) -> Saves {
        Saves::inputs((needs >> 1 & 1) | (needs & 1) << 1)
    }
}

// ------------------------------------------------------------------------------------------------ the public functions

/// The padding of a public function.
#[derive(Clone, Copy, Debug)]
pub enum Padding<'a> {
    /// This many elements on both sides of each dimension.
    Sizes(&'a [i64]),
    /// Padding that keeps the size of the input (`"same"`), or none (`"valid"`).
    Named(&'a str),
}

/// Numeric arguments of a public convolution.
#[derive(Clone, Copy, Debug)]
pub struct ConvArgs<'a> {
    /// Steps between windows.
    pub stride: &'a [i64],
    /// Padding.
    pub padding: Padding<'a>,
    /// Steps between kernel elements.
    pub dilation: &'a [i64],
    /// Groups of channels.
    pub groups: i64,
    /// For a transposed convolution, the number of elements added to one side of each output dimension.
    pub transposed: Option<&'a [i64]>,
}

/// A list with one entry for each spatial dimension, each at least `least`.
fn each(v: &[i64], spatial: usize, least: i64, name: &str, complaint: &str) -> Result<[usize; 3]> {
    let mut out = [least.max(0) as usize; 3];
    if v.len() != spatial && v.len() != 1 {
        return Err(Error::runtime(format!(
            "expected {name} to be a single integer value or a list of {spatial} values to match the convolution \
            dimensions, but got {name}={v:?}"
        )));
    }
    for (d, o) in out.iter_mut().enumerate().take(spatial) {
        let n = v[if v.len() == 1 { 0 } else { d }];
        if n < least {
            return Err(Error::runtime(complaint));
        }
        if n > i64::from(i32::MAX) {
            return Err(Error::runtime("value cannot be converted to type int without overflow"));
        }
        *o = n as usize;
    }
    Ok(out)
}

/// Any public convolution over `spatial` dimensions. An input without a batch dimension is a batch of one.
///
/// # Errors
/// `Runtime`, in PyTorch's wording, when shapes, dtypes or numbers do not fit.
pub fn convolve(x: &Tensor, w: &Tensor, b: Option<&Tensor>, spatial: usize, a: &ConvArgs<'_>) -> Result<Tensor> {
    let rank = x.dims().len();
    let name = format!("conv{}{spatial}d", if a.transposed.is_some() { "_transpose" } else { "" });
    if rank != spatial + 1 && rank != spatial + 2 {
        return Err(Error::runtime(format!(
            "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {}",
            spatial + 1,
            spatial + 2,
            x.dims()
        )));
    }
    if rank == spatial + 1 {
        return convolve(&x.unsqueeze(0)?, w, b, spatial, a)?.squeeze(0);
    }
    if w.dims().len() < 3 {
        return Err(Error::runtime("weight should have at least three dimensions"));
    }
    if w.dims().len() != spatial + 2 {
        return Err(Error::runtime(format!(
            "Expected {}-dimensional input for {}-dimensional weight {}, but got {rank}-dimensional input of size {} \
            instead",
            w.dims().len(),
            w.dims().len(),
            w.dims(),
            x.dims()
        )));
    }
    if a.groups <= 0 {
        return Err(Error::runtime("non-positive groups is not supported"));
    }
    if x.dtype().is_int() && w.dtype() == x.dtype() && b.is_none_or(|b| b.dtype() == x.dtype()) {
        // Whole numbers: the result is exact as long as sums stay below 2^53.
        let b = b.map(|b| b.to_dtype(DType::F64)).transpose()?;
        let y = convolve(&x.to_dtype(DType::F64)?, &w.to_dtype(DType::F64)?, b.as_ref(), spatial, a)?;
        return y.to_dtype(x.dtype());
    }
    if x.dtype().is_complex() && w.dtype() == x.dtype() && b.is_none_or(|b| b.dtype() == x.dtype()) {
        return convolve_parts(x, w, b, spatial, a);
    }
    let stride = each(a.stride, spatial, 1, "stride", "non-positive stride is not supported")?;
    let dilation = each(a.dilation, spatial, 1, "dilation", "dilation should be greater than zero")?;
    let mut spec = ConvSpec { stride, w_dilation: dilation, groups: a.groups as usize, spatial, ..ConvSpec::default() };
    match a.padding {
        Padding::Sizes(p) => {
            let p = each(p, spatial, 0, "padding", "negative padding is not supported")?;
            spec.pad = p.map(|n| (n as i64, n as i64));
        }
        Padding::Named("valid") => spec.pad = [(0, 0); 3],
        Padding::Named("same") => {
            if stride[..spatial].iter().any(|&s| s != 1) {
                return Err(Error::runtime("padding='same' is not supported for strided convolutions"));
            }
            for d in 0..spatial {
                let total = (dilation[d] * w.dims()[2 + d].saturating_sub(1)) as i64;
                spec.pad[d] = (total / 2, total - total / 2);
                if total % 2 != 0 {
                    crate::warn_once!(
                        "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy \
                        of the input be created",
                    )?;
                }
            }
        }
        Padding::Named(other) => {
            return Err(Error::runtime(format!("Invalid padding string: '{other}'")));
        }
    }
    let Some(extra) = a.transposed else {
        return match b {
            Some(b) => dispatch::call(Prim::Conv(Box::new(Conv(spec))), &[x, w, b]),
            None => dispatch::call(Prim::Conv(Box::new(Conv(spec))), &[x, w]),
        };
    };
    let extra = each(extra, spatial, 0, "output_padding", "negative output_padding is not supported")?;
    transposed(x, w, b, spec, extra)
}

/// A convolution of complex numbers by three real ones, after Gauss.
fn convolve_parts(x: &Tensor, w: &Tensor, b: Option<&Tensor>, spatial: usize, a: &ConvArgs<'_>) -> Result<Tensor> {
    let part = |x: &Tensor, w: &Tensor, b: Option<&Tensor>| convolve(x, w, b, spatial, a);
    let ((xr, xi), (wr, wi)) = ((x.real()?, x.imag()?), (w.real()?, w.imag()?));
    let (br, bi) = (b.map(Tensor::real).transpose()?, b.map(Tensor::imag).transpose()?);
    let both = br.as_ref().zip(bi.as_ref()).map(|(re, im)| re.add(im)).transpose()?;
    let re = part(&xr, &wr, br.as_ref())?;
    let im = part(&xi, &wi, None)?;
    // `(xr + xi)(wr + wi)` is the sum of both products and the imaginary part.
    let cross = part(&xr.add(&xi)?, &wr.add(&wi)?, both.as_ref())?;
    crate::ops::complex::complex(&re.sub(&im)?, &cross.sub(&re)?.sub(&im)?)
}

/// The transposed convolution: the input gradient of the convolution that maps the result's sizes to those of `x`.
fn transposed(x: &Tensor, w: &Tensor, b: Option<&Tensor>, spec: ConvSpec, extra: [usize; 3]) -> Result<Tensor> {
    let (dx, dw) = (x.dims(), w.dims());
    if dx[1] != dw[0] {
        return Err(Error::runtime(format!(
            "Given transposed=1, weight of size {dw}, expected input{dx} to have {} channels, but got {} channels \
            instead",
            dw[0], dx[1]
        )));
    }
    check_divisible(dw, spec.groups)?;
    if (0..spec.spatial).any(|d| extra[d] >= spec.stride[d] && extra[d] < spec.w_dilation[d]) {
        // The output is larger than that of such a convolution, as if zeros followed the input.
        let more = |d: usize| if extra[d] < spec.w_dilation[d] { extra[d] / spec.stride[d] } else { 0 };
        let widths: Vec<(i64, i64)> =
            [(0, 0); 2].into_iter().chain((0..spec.spatial).map(|d| (0, more(d) as i64))).collect();
        let x = crate::ops::pad::pad_constant(x, &widths, Scalar::Int(0))?;
        let rest =
            std::array::from_fn(|d| if d < spec.spatial { extra[d] - more(d) * spec.stride[d] } else { extra[d] });
        return transposed(&x, w, b, spec, rest);
    }
    let channels = dw[1] * spec.groups;
    let mut out = Dims::new(&[dx[0], channels]);
    for d in 0..spec.spatial {
        if extra[d] >= spec.stride[d].max(spec.w_dilation[d]) {
            return Err(Error::runtime(format!(
                "output padding must be smaller than either stride or dilation, but got output_padding: {}, stride: \
                {}, dilation: {}",
                extra[d], spec.stride[d], spec.w_dilation[d]
            )));
        }
        let size = (dx[2 + d] as i64 - 1) * spec.stride[d] as i64 - spec.pad[d].0 - spec.pad[d].1
            + spread(dw[2 + d], spec.w_dilation[d]) as i64
            + extra[d] as i64;
        if size < 1 {
            return Err(Error::runtime(format!(
                "Given input size per channel: {}. Calculated output size per channel: ({size}). Output size is too \
                small",
                product_list(dx[2..].iter().copied())
            )));
        }
        out.push(size as usize);
    }
    let y = input_grad(spec, out, x, w)?;
    match b {
        None => Ok(y),
        Some(b) => {
            if b.dims().len() != 1 || b.numel() != channels {
                return Err(Error::runtime(format!(
                    "Given transposed=1, weight of size {dw}, expected bias to be 1-dimensional with {channels} \
                    elements, but got bias of size {} instead",
                    b.dims()
                )));
            }
            let mut shape = Dims::filled(1, out.len());
            shape.set(1, channels);
            y.add(&b.reshape_dims(shape)?)
        }
    }
}

macro_rules! conv_rows {
    ($($spatial:literal $plain:literal $doc:literal $named:literal $transposed:literal $transposed_doc:literal
       $x:expr, $w:expr, $wt:expr;)*) => {
        /// Rows of the convolutions.
        pub const ROWS: &[Row] = &[$(
            Row::new($plain, Tier::Prim, |a| {
                let args = ConvArgs { stride: a.ints(3)?, padding: Padding::Sizes(a.ints(4)?), dilation: a.ints(5)?,
                    groups: a.int(6)?, transposed: None };
                Ok(convolve(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, $spatial, &args)?.into())
            }, samples!([t($x), t($w), t(&[4])],
            [t($x), t($w), SampleArg::Default, ints(&[2; $spatial]), ints(&[1; $spatial])],
            [t(&$x[1..]), t($w), t(&[4]), ints(&[1; $spatial]), ints(&[2; $spatial]),
                ints(&[2; $spatial])])).doc($doc).scope(Scope::Function).autocast(Policies::both(Policy::Lower)),
            Row::new($named, Tier::Prim, |a| {
                let args = ConvArgs { stride: a.ints(3)?, padding: Padding::Named(a.str(4)?), dilation: a.ints(5)?,
                    groups: a.int(6)?, transposed: None };
                Ok(convolve(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, $spatial, &args)?.into())
            }, samples!([t($x), t($w), t(&[4]), ints(&[1; $spatial]),
                SampleArg::Str("same")])).scope(Scope::Function).autocast(Policies::both(Policy::Lower)),
            Row::new($transposed, Tier::Fused, |a| {
                let args = ConvArgs { stride: a.ints(3)?, padding: Padding::Sizes(a.ints(4)?), dilation: a.ints(7)?,
                    groups: a.int(6)?, transposed: Some(a.ints(5)?) };
                Ok(convolve(a.tensor(0)?, a.tensor(1)?, a.opt_tensor(2)?, $spatial, &args)?.into())
            }, samples!([t($x), t($wt), t(&[3])],
            [t($x), t($wt), SampleArg::Default, ints(&[2; $spatial]), ints(&[1; $spatial]),
                ints(&[1; $spatial])]))
            .doc($transposed_doc)
            .scope(Scope::Function)
            .autocast(Policies::both(Policy::Lower)),
        )*
            Row::new("convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, \
                SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor", Tier::Prim,
            |a| {
                let w = a.tensor(1)?;
                let spatial = w.dims().len().saturating_sub(2);
                if !(1..=3).contains(&spatial) {
                    return Err(Error::runtime(format!("weight should have 3 to 5 dimensions, but got {}",
                        w.dims().len())));
                }
                let transposed = if a.bool(6)? { Some(a.ints(7)?) } else { None };
                let args = ConvArgs { stride: a.ints(3)?, padding: Padding::Sizes(a.ints(4)?), dilation: a.ints(5)?,
                    groups: a.int(8)?, transposed };
                Ok(convolve(a.tensor(0)?, w, a.opt_tensor(2)?, spatial, &args)?.into())
            }, grouped)
            .doc(
                "Return the convolution over the last one to three dimensions that the rank of `weight`, 3 to 5, \
                 says. All numbers are lists with one entry, or one for each dimension. With `transposed`, the result \
                 is that of `torch.conv_transpose1d`, `torch.conv_transpose2d` or `torch.conv_transpose3d`, else that \
                 of `torch.conv1d`, `torch.conv2d` or `torch.conv3d`. `output_padding` counts with `transposed` only.",
            )
            .scope(Scope::Function),
            Row::new("conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", Tier::Composed, |a|
                Ok(conv_tbc(a.tensor(0)?, a.tensor(1)?, a.tensor(2)?, a.int(3)?)?.into()),
                samples!([t(&[5, 2, 3]), t(&[2, 3, 4]), t(&[4]), n(1)]))
            .doc(
                "Return the cross-correlation of `input` `(t, n, c)` with `weight` `(k, c, o)` along the first \
                 dimension, plus `bias` `(o,)`. The result is `(t + 2 * pad - k + 1, n, o)`. Zeros pad both ends. All \
                 three operands are required.",
            )
            .no_out().scope(Scope::Function)
    .autocast(Policies::both(Policy::Lower)),
        ];
    };
}

/// `torch.conv_tbc`: a convolution along the first dimension of `[time, batch, channel]`.
fn conv_tbc(x: &Tensor, w: &Tensor, b: &Tensor, pad: i64) -> Result<Tensor> {
    let bad = |text: &str| Err(Error::runtime(text));
    if x.dims().len() != 3 {
        return bad("Input must have 3 dims: time, batch, in_channel");
    }
    if w.dims().len() != 3 {
        return bad("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
    }
    if b.dims().len() != 1 {
        return bad("Bias must be 1-D");
    }
    if x.dims()[2] != w.dims()[1] {
        return bad("Input dim 2 (input channels) is not == dim 1 in the weight tensor");
    }
    if w.dims()[2] != b.numel() {
        return bad("Bias size must equal dim 2 in the weight tensor (output channels).");
    }
    let args = ConvArgs { stride: &[1], padding: Padding::Sizes(&[pad]), dilation: &[1], groups: 1, transposed: None };
    convolve(&x.permute(&[1, 2, 0])?, &w.permute(&[2, 1, 0])?, Some(b), 1, &args)?.permute(&[2, 0, 1])?.contiguous()
}

fn grouped() -> Vec<Sample> {
    let of = |transposed: bool| {
        Sample::new(vec![
            t(&[2, 4, 5]),
            t(&[4, 2, 3]),
            t(&[4]),
            ints(&[2]),
            ints(&[1]),
            ints(&[1]),
            n(transposed),
            ints(&[0]),
            n(2),
        ])
    };
    vec![of(false), of(true)]
}

conv_rows! {
    1 "conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, SymInt[1] padding=0, SymInt[1] \
        dilation=1, SymInt groups=1) -> Tensor"
      "Return the cross-correlation of `input` `(n, c, l)` or `(c, l)` with `weight` `(o, c / groups, k)`, plus \
       `bias` `(o,)`. The result is `(n, o, l')` or `(o, l')` with `l' = (l + 2 * padding - dilation * (k - 1) - 1) \
       // stride + 1`. Zeros pad both ends. `padding` may also be `\"valid\"` (none) or `\"same\"` (as long as the \
       input, for `stride=1` only). Output channel `i` reads the input channels of its group, one of `groups` equal \
       runs. Integers are summed in `float64`, exact below 2^53."
      "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, str padding='valid', \
      SymInt[1] dilation=1, SymInt groups=1) -> Tensor"
      "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, SymInt[1] padding=0, \
      SymInt[1] output_padding=0, SymInt groups=1, SymInt[1] dilation=1) -> Tensor"
      "Return the transposed convolution of `input` `(n, c, l)` or `(c, l)` with `weight` `(c, o / groups, k)`, plus \
       `bias` `(o,)`. It is the gradient of `torch.conv1d` for its input. The result is `(n, o, l')` or `(o, l')` \
       with `l' = (l - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1`. `output_padding` adds \
       elements at the end, and must be smaller than `stride` or `dilation`. A result of no elements raises \
       `RuntimeError`."
      &[2, 2, 5], &[4, 2, 3], &[2, 3, 3];
    2 "conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] \
        dilation=1, SymInt groups=1) -> Tensor"
      "Return the cross-correlation of `input` `(n, c, h, w)` or `(c, h, w)` with `weight` `(o, c / groups, kh, kw)`, \
       plus `bias` `(o,)`. The result is `(n, o, h', w')` with `h' = (h + 2 * padding - dilation * (kh - 1) - 1) // \
       stride + 1`, and `w'` likewise. `stride`, `padding` and `dilation` are numbers or pairs `(height, width)`. \
       `padding` may also be `\"valid\"` (none) or `\"same\"` (as large as the input, for `stride=1` only). \
       `groups=c` convolves each channel alone."
      "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, str padding='valid', \
      SymInt[2] dilation=1, SymInt groups=1) -> Tensor"
      "conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, \
      SymInt[2] output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor"
      "Return the transposed convolution of `input` `(n, c, h, w)` or `(c, h, w)` with `weight` `(c, o / groups, kh, \
       kw)`, plus `bias` `(o,)`. It is the gradient of `torch.conv2d` for its input. The result is `(n, o, h', w')` \
       with `h' = (h - 1) * stride - 2 * padding + dilation * (kh - 1) + output_padding + 1`, and `w'` likewise. \
       `output_padding` adds rows at the bottom and columns at the right. It must be smaller than `stride` or \
       `dilation`."
      &[2, 2, 4, 3], &[4, 2, 3, 2], &[2, 3, 3, 2];
    3 "conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, SymInt[3] padding=0, SymInt[3] \
        dilation=1, SymInt groups=1) -> Tensor"
      "Return the cross-correlation of `input` `(n, c, d, h, w)` or `(c, d, h, w)` with `weight` `(o, c / groups, kd, \
       kh, kw)`, plus `bias` `(o,)`. The result is `(n, o, d', h', w')`, where each size follows the formula of \
       `torch.conv2d`. `stride`, `padding` and `dilation` are numbers or triples `(depth, height, width)`. `padding` \
       may also be `\"valid\"` or, for `stride=1`, `\"same\"`."
      "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, str padding='valid', \
      SymInt[3] dilation=1, SymInt groups=1) -> Tensor"
      "conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, SymInt[3] padding=0, \
      SymInt[3] output_padding=0, SymInt groups=1, SymInt[3] dilation=1) -> Tensor"
      "Return the transposed convolution of `input` `(n, c, d, h, w)` or `(c, d, h, w)` with `weight` `(c, o / \
       groups, kd, kh, kw)`, plus `bias` `(o,)`. It is the gradient of `torch.conv3d` for its input. The result is \
       `(n, o, d', h', w')`, where each size follows the formula of `torch.conv_transpose2d`. `stride`, `padding`, \
       `output_padding` and `dilation` are numbers or triples `(depth, height, width)`."
      &[1, 2, 3, 3, 2], &[4, 2, 2, 2, 2], &[2, 3, 2, 2, 2];
}
