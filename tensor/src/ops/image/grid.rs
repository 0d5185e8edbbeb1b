//! Sampling at the points of a grid: `grid_sampler` for images and volumes, and grids of affine maps.

use crate::axes::{Axes, Combine, all_whole, list, names};
use crate::op::{Fused, Grads, KernelFn, Outs, Prim, Saves, VjpFn};
use crate::ops::creation::sizes;
use crate::ops::indexing::{Gather, Scatter, ScatterKind};
use crate::ops::pointwise::{BinaryKind, arith, select, select_scalar};
use crate::policy::{Policies, Policy};
use crate::schema::{Operand, Row, Sample, Scope, Tier, ints, n, t, unit};
use crate::types::compute::{expect_float, narrowed, widened};
use crate::{DType, Dims, Error, Meta, Result, Scalar, Tensor, dispatch};
use smallvec::smallvec;
use torchtpu_kernels::grid as kernels;
use torchtpu_kernels::grid::{GridSpec, Interpolation, Outside};

/// Samples an image or a volume at the points of a grid.
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | x | `[n, c, *s]`, two or three spatial dimensions | floating point |
/// | grid | `[n, *o, d]`: for each point its place along each dimension, the last one first | as x |
/// | y | `[n, c, *o]` | as x |
///
/// Coordinates run from -1 to 1. 16-bit floats are computed in `f32`. Saves both operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GridSample(pub GridSpec);

/// Gradients of [`GridSample`] for x and grid, from `g, x, grid`. Unwanted gradients have no elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GridSampleBackward {
    /// The op whose gradient this is.
    pub of: GridSpec,
    /// Bits 0 and 1: whether the gradients of x and grid are wanted.
    pub wanted: u8,
}

/// A read of the input along one dimension, for every point `[n, p]`.
struct Tap {
    /// Its position, zero if it is outside.
    at: Tensor,
    inside: Tensor,
    weight: Tensor,
    /// Derivative of the weight by the grid's coordinate; `None` if the weight does not depend on it.
    slope: Option<Tensor>,
}

const A: f64 = -0.75;

fn constant(like: &Tensor, v: f64) -> Result<Tensor> {
    Tensor::full_meta(like.meta(), Scalar::Float(v))
}

/// `a x^3 + b x^2 + c x + d`.
fn polynomial(x: &Tensor, [a, b, c, d]: [f64; 4]) -> Result<Tensor> {
    x.mul_scalar(a)?.add_scalar(b)?.mul(x)?.add_scalar(c)?.mul(x)?.add_scalar(d)
}

/// A coordinate moved inside, and its derivative by the original one; `None` if that is one.
/// As in PyTorch, a coordinate that is none becomes the first position of an image, and the last one of a volume.
fn folded(spec: &GridSpec, c: &Tensor, size: usize, is_image: bool) -> Result<(Tensor, Option<Tensor>)> {
    if spec.outside == Outside::Zeros {
        return Ok((c.clone(), None));
    }
    let max = (size - 1) as f64;
    let (mut c, mut slope) = (c.clone(), constant(c, 1.0)?);
    if spec.outside == Outside::Reflection {
        let (low, span) = if spec.align_corners { (0.0, max) } else { (-0.5, size as f64) };
        if span == 0.0 {
            let zero = c.mul_scalar(0.0)?;
            return Ok((zero.clone(), Some(zero.detach())));
        }
        let t = c.sub_scalar(low)?;
        let below = t.lt_scalar(0.0)?;
        let t = select(&below, &t.neg()?, &t)?;
        slope = select_scalar(&below, -1.0, &slope)?;
        let by = |kind, x: &Tensor, v: f64| arith(kind, Operand::Tensor(x), Operand::Scalar(Scalar::Float(v)));
        // Both ways give the same for coordinates near the image. Far away they round as PyTorch's.
        let (even, forth, back) = if is_image {
            let periods = t.detach().div_scalar(2.0 * span)?.trunc()?;
            let forth = t.sub(&periods.mul_scalar(2.0 * span)?)?;
            let back = forth.neg()?.add_scalar(2.0 * span)?;
            (forth.le(&back)?, forth, back)
        } else {
            let extra = by(BinaryKind::Fmod, &t, span)?;
            let flips = t.detach().div_scalar(span)?.floor()?;
            let even = by(BinaryKind::Fmod, &flips, 2.0)?.eq_scalar(0.0)?;
            (even, extra.clone(), extra.neg()?.add_scalar(span)?)
        };
        c = select(&even, &forth, &back)?.add_scalar(low)?;
        slope = select(&even, &slope, &slope.neg()?)?;
    }
    let (mut before, mut after, unknown) = (c.le_scalar(0.0)?, c.ge_scalar(max)?, c.detach().isnan()?);
    if is_image {
        before = before.logical_or(&unknown)?;
    } else {
        after = after.logical_or(&unknown)?;
    }
    c = select_scalar(&before, 0.0, &select_scalar(&after, max, &c)?)?;
    slope = select_scalar(&before, 0.0, &select_scalar(&after, 0.0, &slope)?)?;
    Ok((c, Some(slope)))
}

fn tap(c: &Tensor, size: usize, is_image: bool, weight: Tensor, slope: Option<Tensor>) -> Result<Tap> {
    let c = c.detach();
    let mut inside = c.ge_scalar(0.0)?.logical_and(&c.le_scalar((size - 1) as f64)?)?;
    let at = select_scalar(&inside.logical_not()?, 0.0, &c)?.to_dtype(DType::I64)?;
    if is_image {
        // A weight that is NaN reaches the result of an image, but not that of a volume.
        inside = inside.logical_or(&weight.detach().isnan()?)?;
    }
    Ok(Tap { at, inside, weight, slope })
}

/// The reads of each point along one dimension, for the grid's coordinates `[n, p]`.
fn taps(spec: &GridSpec, grid: &Tensor, size: usize, is_image: bool) -> Result<Vec<Tap>> {
    let s = size as f64;
    let (c, scale) = if spec.align_corners {
        (grid.add_scalar(1.0)?.div_scalar(2.0)?.mul_scalar(s - 1.0)?, (s - 1.0) / 2.0)
    } else {
        (grid.add_scalar(1.0)?.mul_scalar(s)?.sub_scalar(1.0)?.div_scalar(2.0)?, s / 2.0)
    };
    match spec.interpolation {
        Interpolation::Nearest => {
            let (c, _) = folded(spec, &c, size, is_image)?;
            Ok(vec![tap(&c.detach().round()?, size, is_image, constant(&c, 1.0)?, None)?])
        }
        Interpolation::Linear => {
            let (c, slope) = folded(spec, &c, size, is_image)?;
            let low = c.detach().floor()?;
            let part = c.sub(&low)?;
            let slope = match slope {
                Some(s) => s.mul_scalar(scale)?,
                None => constant(&c, scale)?,
            };
            Ok(vec![
                tap(&low, size, is_image, part.neg()?.add_scalar(1.0)?, Some(slope.neg()?))?,
                tap(&low.add_scalar(1.0)?, size, is_image, part, Some(slope))?,
            ])
        }
        Interpolation::Cubic => {
            let low = c.detach().floor()?;
            let t = c.sub(&low)?;
            let near = [A + 2.0, -(A + 3.0), 0.0, 1.0];
            let far = [A, -5.0 * A, 8.0 * A, -4.0 * A];
            let slope_of = |[a, b, c, _]: [f64; 4]| [0.0, 3.0 * a, 2.0 * b, c];
            (0..4)
                .map(|i| {
                    // Distances of the four elements from the point: 1 + t, t, 1 - t, 2 - t.
                    let forward = i < 2;
                    let x =
                        if forward { t.add_scalar(1.0 - i as f64)? } else { t.neg()?.add_scalar(i as f64 - 1.0)? };
                    let p = if i == 1 || i == 2 { near } else { far };
                    let slope = polynomial(&x, slope_of(p))?.mul_scalar(if forward { scale } else { -scale })?;
                    let (at, _) = folded(spec, &low.add_scalar(i as f64 - 1.0)?, size, is_image)?;
                    tap(&at.floor()?, size, is_image, polynomial(&x, p)?, Some(slope))
                })
                .collect()
        }
    }
}

/// Every combination of taps: flat positions `[n, p]`, the weight, and the weight's derivatives.
fn each(
    spec: &GridSpec,
    x: &Tensor,
    grid: &Tensor,
    mut f: impl FnMut(&Tensor, &Tensor, &dyn Fn(usize) -> Result<Option<Tensor>>) -> Result<()>,
) -> Result<()> {
    let s = &x.dims()[2..];
    let (batch, d) = (grid.dims()[0], s.len());
    let flat = grid.reshape_dims(Dims::new(&[batch, grid.numel() / (batch.max(1) * d), d]))?;
    let along: Vec<Vec<Tap>> =
        (0..d).map(|k| taps(spec, &flat.select(2, (d - 1 - k) as i64)?, s[k], d == 2)).collect::<Result<_>>()?;
    let count = along[0].len();
    for c in 0..count.pow(d as u32) {
        let chosen: Vec<&Tap> = (0..d).map(|k| &along[k][c / count.pow((d - 1 - k) as u32) % count]).collect();
        let (mut at, mut inside) = (chosen[0].at.clone(), chosen[0].inside.clone());
        for k in 1..d {
            at = at.mul_scalar(s[k] as i64)?.add(&chosen[k].at)?;
            inside = inside.logical_and(&chosen[k].inside)?;
        }
        let masked = |w: &Tensor| select_scalar(&inside.logical_not()?, 0.0, w);
        let product = |slope_at: usize| -> Result<Option<Tensor>> {
            let mut w: Option<Tensor> = None;
            for (k, tap) in chosen.iter().enumerate() {
                let v = if k == slope_at {
                    match &tap.slope {
                        Some(s) => s,
                        None => return Ok(None),
                    }
                } else {
                    &tap.weight
                };
                w = Some(match w {
                    Some(w) => w.mul(v)?,
                    None => v.clone(),
                });
            }
            w.map(|w| masked(&w)).transpose()
        };
        let weight = product(usize::MAX)?.expect("a point has a dimension");
        f(&at, &weight, &product)?;
    }
    Ok(())
}

/// `x` and positions in the form for gather and scatter: `[n, c, plane]` and `[n, c, p]`.
fn planes(x: &Tensor) -> Result<Tensor> {
    let d = x.dims();
    x.reshape_dims(Dims::new(&[d[0], d[1], d[2..].iter().product()]))
}

fn over_channels(at: &Tensor, channels: usize) -> Result<Tensor> {
    at.unsqueeze(1)?.expand_dims(&Dims::new(&[at.dims()[0], channels, at.dims()[1]]))
}

/// An unwanted result.
fn nothing(like: &Meta) -> Meta {
    like.with_dims(Dims::new(&[0]))
}

impl Fused for GridSample {
    const NAME: &'static str = "grid_sampler_2d";
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        kernels::grid_sample(&x[0].view(), &x[1].view(), &o.0, &mut y[0].view_mut());
        Ok(())
    });
    const VJP: Option<VjpFn<Self>> = Some(|o, s, g| {
        let wanted = u8::from(s.needs(0)) | u8::from(s.needs(1)) << 1;
        let op = GridSampleBackward { of: o.0, wanted };
        let d = dispatch::call_n(Prim::GridSampleBackward(op), &[g, s.x(0), s.x(1)])?;
        Ok(d.into_iter().enumerate().map(|(i, d)| s.needs(i).then_some(d)).collect())
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        check(x[0], x[1])?;
        let d = x[0].dims();
        let out: Dims = d[..2].iter().chain(&x[1].dims()[1..d.len() - 1]).copied().collect();
        Ok(x[0].meta().with_dims(out))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let (d, points) = (all_whole(x[0].dims.len() - 2), list("o", x[0].dims.len() - 2));
        Axes::parse(&format!("n c {d}, n {points} _ -> n c {points}"), x, y).linear(&[0b1])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (v, grid) = (widened(x[0])?, widened(x[1])?);
        let out = self.infer(x)?;
        let flat = planes(&v)?;
        let mut sum: Option<Tensor> = None;
        each(&self.0, &v, &grid, |at, w, _| {
            let at = over_channels(at, v.dims()[1])?;
            let part = dispatch::call(Prim::Gather(Gather { dim: 2 }), &[&flat, &at])?.mul(&w.unsqueeze(1)?)?;
            sum = Some(match &sum {
                Some(s) => s.add(&part)?,
                None => part,
            });
            Ok(())
        })?;
        let sum = sum.expect("a point has a tap");
        Ok(smallvec![narrowed(sum.reshape_dims(out.dims)?, out.dtype)?])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::inputs(0b11)
    }
}

impl Fused for GridSampleBackward {
    const NAME: &'static str = "grid_sampler_2d_backward";
    const OUTS: usize = 2;
    const KERNEL: Option<KernelFn<Self>> = Some(|o, x, y| {
        let (mut gx, mut ggrid) = (y[0].view_mut(), y[1].view_mut());
        let wanted = |i: u8| o.wanted >> i & 1 != 0;
        kernels::grid_sample_backward(
            &x[0].view(),
            &x[1].view(),
            &x[2].view(),
            &o.of,
            wanted(0).then_some(&mut gx),
            wanted(1).then_some(&mut ggrid),
        );
        Ok(())
    });
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        Ok(if self.wanted & 1 != 0 { *x[1].meta() } else { nothing(x[1].meta()) })
    }
    fn infer_extra(&self, x: &[&Tensor], _: &Meta, _: usize) -> Meta {
        if self.wanted & 2 != 0 { *x[2].meta() } else { nothing(x[2].meta()) }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let (d, points) = (all_whole(x[1].dims.len() - 2), list("o", x[1].dims.len() - 2));
        let mut axes = Axes::parse(&format!("n c {points}, n c {d}, n {points} _ -> n c {d}, n {points} _"), x, y);
        for name in std::iter::once("c".to_string()).chain(names("o", x[1].dims.len() - 2)) {
            axes = axes.reduces(&name, Combine::Sum);
        }
        axes.linear(&[0b1])
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (g, v, grid) = (planes(&widened(x[0])?)?, widened(x[1])?, widened(x[2])?);
        let (channels, d) = (v.dims()[1], v.dims().len() - 2);
        let flat = planes(&v)?;
        let mut gx = Tensor::zeros_like_meta(flat.meta())?;
        let mut parts: Vec<Option<Tensor>> = vec![None; d];
        let add = Scatter { dim: 2, kind: ScatterKind::Add, include_self: true };
        each(&self.of, &v, &grid, |at, w, slope| {
            let at = over_channels(at, channels)?;
            if self.wanted & 1 != 0 {
                gx = dispatch::call(Prim::Scatter(add), &[&gx, &at, &g.mul(&w.unsqueeze(1)?)?])?;
            }
            if self.wanted & 2 == 0 {
                return Ok(());
            }
            let mut along: Option<Tensor> = None;
            for (k, part) in parts.iter_mut().enumerate() {
                let Some(s) = slope(k)? else { continue };
                let along = match &along {
                    Some(a) => a,
                    None => {
                        let here = dispatch::call(Prim::Gather(Gather { dim: 2 }), &[&flat, &at])?;
                        along.insert(here.mul(&g)?.sum_dim(&[1], false)?)
                    }
                };
                let more = along.mul(&s)?;
                *part = Some(match part.take() {
                    Some(p) => p.add(&more)?,
                    None => more,
                });
            }
            Ok(())
        })?;
        let first = if self.wanted & 1 != 0 {
            narrowed(gx.reshape_dims(*x[1].dims())?, x[1].dtype())?
        } else {
            Tensor::zeros_like_meta(&nothing(x[1].meta()))?
        };
        let second = if self.wanted & 2 != 0 {
            let zeros = || Tensor::zeros_like_meta(&g.meta().with_dims(Dims::new(&[g.dims()[0], g.dims()[2]])));
            // The first coordinate of the grid belongs to the last dimension.
            let parts: Vec<Tensor> =
                parts.into_iter().rev().map(|p| p.map_or_else(zeros, Ok)).collect::<Result<_>>()?;
            let stacked = crate::ops::concat::stack(&parts.iter().collect::<Vec<_>>(), 2)?;
            narrowed(stacked.reshape_dims(*x[2].dims())?, x[2].dtype())?
        } else {
            Tensor::zeros_like_meta(&nothing(x[2].meta()))?
        };
        Ok(smallvec![first, second])
    }
}

fn check(x: &Tensor, grid: &Tensor) -> Result<()> {
    let (d, g) = (x.dims(), grid.dims());
    if x.place() != grid.place() {
        return Err(Error::runtime(format!(
            "grid_sampler(): expected input and grid to be on same device, but input is on {} and grid is on {}",
            x.place(),
            grid.place()
        )));
    }
    if d.first() != g.first() {
        return Err(Error::runtime(format!(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {d} and grid \
            with sizes {g}"
        )));
    }
    if g.last().copied() != d.len().checked_sub(2) {
        return Err(Error::runtime(format!(
            "grid_sampler(): expected grid to have size {} in last dimension, but got grid with sizes {g}",
            d.len() as i64 - 2
        )));
    }
    if let Some(i) = (2..d.len()).find(|&i| d[i] == 0) {
        return Err(Error::runtime(format!(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {d} with \
            dimension {i} being empty"
        )));
    }
    if d.len() != g.len() || !(4..=5).contains(&d.len()) {
        let want = if d.len() == 4 { 4 } else { 5 };
        return Err(Error::runtime(format!(
            "grid_sampler(): expected {want}D input and grid with same number of dimensions, but got input with sizes \
            {d} and grid with sizes {g}"
        )));
    }
    expect_float(if d.len() == 4 { "grid_sampler_2d_cpu_kernel_impl" } else { "grid_sampler3d_cpu" }, x)?;
    if x.dtype() != grid.dtype() {
        return Err(Error::runtime(format!(
            "expected scalar type {} but found {}",
            x.dtype().scalar_type(),
            grid.dtype().scalar_type()
        )));
    }
    Ok(())
}

/// `torch.grid_sampler`. `spatial` is the number of dimensions that the function requires, or `None` for either.
fn grid_sampler(a: &crate::schema::Args<'_>, spatial: Option<usize>) -> Result<Tensor> {
    let (x, grid) = (a.tensor(0)?, a.tensor(1)?);
    check_spatial(x, grid, spatial)?;
    let interpolation = match a.int(2)? {
        0 => Interpolation::Linear,
        1 => Interpolation::Nearest,
        2 => Interpolation::Cubic,
        m => return Err(Error::runtime(format!("grid_sampler(): unknown interpolation mode {m}"))),
    };
    let outside = match a.int(3)? {
        0 => Outside::Zeros,
        1 => Outside::Border,
        2 => Outside::Reflection,
        m => return Err(Error::runtime(format!("grid_sampler(): unknown padding mode {m}"))),
    };
    let spec = GridSpec { interpolation, outside, align_corners: a.bool(4)? };
    dispatch::call(Prim::GridSample(GridSample(spec)), &[x, grid])
}

fn check_spatial(x: &Tensor, grid: &Tensor, spatial: Option<usize>) -> Result<()> {
    let Some(s) = spatial.filter(|s| x.dims().len() != s + 2) else { return Ok(()) };
    Err(Error::runtime(format!(
        "grid_sampler(): expected {}D input and grid with same number of dimensions, but got input with sizes {} and \
        grid with sizes {}",
        s + 2,
        x.dims(),
        grid.dims()
    )))
}

/// `torch.affine_grid_generator`: the points of an output of the given size, mapped by matrices.
///
/// # Errors
/// `Runtime` for sizes that are no image or volume, or maps that do not fit.
pub fn affine_grid_generator(theta: &Tensor, size: &[i64], align_corners: bool) -> Result<Tensor> {
    if theta.dtype().is_half() {
        // The points themselves would be rounded.
        return narrowed(affine_grid_generator(&widened(theta)?, size, align_corners)?, theta.dtype());
    }
    if crate::state::grad_enabled() && theta.requires_grad() {
        let y = crate::no_grad(|| affine_grid_generator(&theta.detach(), size, align_corners))?;
        let backward = AffineGridBackward { theta: *theta.meta(), size: size.to_vec(), align_corners };
        return crate::graph::with_backward(&y, &[theta], Box::new(backward));
    }
    let size = affine_sizes(size)?;
    let (out, d) = (&size[2..], size.len() - 2);
    let grid = affine_points(theta.meta(), &size, align_corners)?.bmm(&theta.transpose(1, 2)?)?;
    let dims: Vec<i64> = size[..1].iter().chain(out).chain(&[d]).map(|&n| n as i64).collect();
    grid.reshape(&dims)
}

/// Gradient of [`affine_grid_generator`]. It computes the points again, so nothing is saved.
struct AffineGridBackward {
    theta: Meta,
    size: Vec<i64>,
    align_corners: bool,
}

impl crate::graph::BackwardFn for AffineGridBackward {
    fn name(&self) -> String {
        "AffineGridGeneratorBackward0".into()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        let Some(g) = &g[0] else { return Ok(smallvec![None]) };
        let size = sizes(&self.size)?;
        let points = affine_points(&self.theta, &size, self.align_corners)?;
        let (batch, count, d) = (size[0], points.dims()[1], size.len() - 2);
        let g = g.reshape_dims(Dims::new(&[batch, count, d]))?;
        Ok(smallvec![Some(g.transpose(1, 2)?.bmm(&points)?)])
    }
}

/// Sizes of the output, an image or a volume.
fn affine_sizes(size: &[i64]) -> Result<Dims> {
    if size.len() != 4 && size.len() != 5 {
        return Err(Error::runtime("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs."));
    }
    sizes(size)
}

/// The points of an output in homogeneous coordinates, `[n, points, d + 1]`, for maps of this description.
fn affine_points(theta: &Meta, size: &Dims, align_corners: bool) -> Result<Tensor> {
    let (batch, out) = (size[0], &size[2..]);
    let d = out.len();
    let points: usize = out.iter().product();
    let line = |count: usize| -> Result<Tensor> {
        if count <= 1 {
            return Tensor::zeros(&[count], theta.dtype, theta.place);
        }
        let x = Tensor::linspace(-1.0, 1.0, count as i64, theta.dtype, theta.place)?;
        if align_corners { Ok(x) } else { x.mul_scalar((count - 1) as f64)?.div_scalar(count as f64) }
    };
    // The coordinate of the last dimension comes first.
    let mut columns = Vec::with_capacity(d + 1);
    for k in (0..d).rev() {
        let mut shape = vec![1usize; d];
        shape[k] = out[k];
        let column = line(out[k])?.reshape_dims(Dims::new(&shape))?.expand_dims(&Dims::new(out))?;
        columns.push(column.reshape_dims(Dims::new(&[points]))?);
    }
    columns.push(Tensor::ones(&[points], theta.dtype, theta.place)?);
    let base = crate::ops::concat::stack(&columns.iter().collect::<Vec<_>>(), 1)?;
    base.unsqueeze(0)?.expand_dims(&Dims::new(&[batch, points, d + 1]))
}

/// Every interpolation and padding, at points where derivatives do not jump.
fn grid_samples(spatial: usize) -> Vec<Sample> {
    let x = t(&[&[2, 2][..], &[4, 5, 3][..spatial]].concat());
    let grid = unit(&[&[2][..], &[2, 3, 2][..spatial], &[spatial]].concat());
    let wide = t(&[&[2][..], &[2, 3, 2][..spatial], &[spatial]].concat());
    let mut v = vec![Sample::new(vec![x.clone(), grid.clone(), n(0), n(0), n(true)]).dtypes(&[DType::F64])];
    for mode in 0..3 {
        for padding in 0..3 {
            let sample = Sample::new(vec![x.clone(), wide.clone(), n(mode), n(padding), n(padding == 1)]);
            v.push(sample);
        }
    }
    v
}

/// Rows of the family.
pub const ROWS: &[Row] = &[
    Row::new(
        "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> \
        Tensor",
        Tier::Fused,
        |a| Ok(grid_sampler(a, None)?.into()),
        || grid_samples(2)[..1].to_vec(),
    )
    .doc(
        "Return `input` sampled at the points of `grid`: `torch.grid_sampler_2d` for four dimensions and \
         `torch.grid_sampler_3d` for five.",
    )
    .no_out()
    .scope(Scope::Function)
    .autocast(Policies::each(Policy::Full, Policy::Widest)),
    Row::new(
        "grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> \
        Tensor",
        Tier::Fused,
        |a| Ok(grid_sampler(a, Some(2))?.into()),
        || grid_samples(2),
    )
    .doc(
        "Return the images `input` `(n, c, h, w)` sampled at the points of `grid` `(n, ho, wo, 2)`, as `(n, c, ho, \
         wo)`. A point is `(x, y)`, where -1 is the left or upper edge and 1 the right or lower one. `align_corners` \
         places -1 and 1 at the centres of the outermost pixels instead of their outer edges. `interpolation_mode` is \
         0 for bilinear, 1 for nearest and 2 for bicubic. `padding_mode` says what lies outside: 0 zeros, 1 the \
         nearest edge pixel, 2 the reflected image.",
    )
    .no_out()
    .scope(Scope::Function)
    .autocast(Policies::each(Policy::Full, Policy::Widest)),
    Row::new(
        "grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> \
        Tensor",
        Tier::Fused,
        |a| Ok(grid_sampler(a, Some(3))?.into()),
        || grid_samples(3),
    )
    .doc(
        "Return the volumes `input` `(n, c, d, h, w)` sampled at the points of `grid` `(n, do, ho, wo, 3)`, as `(n, \
         c, do, ho, wo)`. A point is `(x, y, z)`: the places along width, height and depth, from -1 to 1. The modes \
         are those of `torch.grid_sampler_2d`.",
    )
    .no_out()
    .scope(Scope::Function)
    .autocast(Policies::each(Policy::Full, Policy::Widest)),
    Row::new(
        "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
        Tier::Composed,
        |a| Ok(affine_grid_generator(a.tensor(0)?, a.ints(1)?, a.bool(2)?)?.into()),
        || {
            vec![
                Sample::new(vec![t(&[2, 2, 3]), ints(&[2, 1, 3, 4]), n(false)]),
                Sample::new(vec![t(&[1, 3, 4]), ints(&[1, 1, 2, 1, 3]), n(true)]),
            ]
        },
    )
    .doc(
        "Return the sampling grid of affine maps `theta` for outputs of `size`. `theta` `(n, 2, 3)` with a `size` of \
         `(n, c, h, w)` gives `(n, h, w, 2)`, and `theta` `(n, 3, 4)` with `(n, c, d, h, w)` gives `(n, d, h, w, 3)`. \
         Each point of the output, with coordinates from -1 to 1, is multiplied by `theta`. With `align_corners` the \
         outermost points lie at -1 and 1, else half a step inside.",
    )
    .no_out()
    .scope(Scope::Function),
];
