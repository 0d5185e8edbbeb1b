//! Images split and joined: sliding blocks as columns, pixels as channels, channels in another order, and maxima
//! written back to their positions.

use crate::axes::Axes;
use crate::op::{Func, Grads, Op, Prim, Saved, Saves, Value, Values};
use crate::ops::creation::sizes;
use crate::ops::indexing::{Scatter, ScatterKind, guard};
use crate::policy::{Policies, Policy};
use crate::schema::{Args, Row, Sample, Scope, Tier, index, ints, n, t};
use crate::{DType, Dims, Error, Meta, Result, Tensor, dispatch, samples};
use smallvec::smallvec;
use torchtpu_kernels::columns as kernels;
use torchtpu_kernels::columns::Blocks;

// ------------------------------------------------------------------------------------------------ blocks as columns

/// The sliding blocks of an image as columns: `[n, c, h, w]` to `[n, c * kh * kw, blocks]`.
///
/// The dtype is floating point. Blocks have zeros beyond the image. The op is linear, so nothing is saved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Im2Col(pub Blocks);

/// The adjoint of [`Im2Col`]: every pixel is the sum of its copies in the blocks. 16-bit floats are summed in `f32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Col2Im(pub Blocks);

impl Op for Im2Col {
    const NAME: &'static str = "im2col";
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (d, b) = (x[0].dims(), &self.0);
        let each = b.kernel[0] * b.kernel[1];
        Ok(x[0].meta().with_dims(Dims::new(&[d[0], d[1] * each, b.count[0] * b.count[1]])))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("n c _ _ -> n (c _) _", x, y).linear(&[0b1])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::im2col(&x[0].view(), &self.0, &mut y[0].view_mut());
        Ok(())
    }
    /// Take one strided slice for each row of the block, then one for each column.
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let (b, d) = (&self.0, x[0].shape().to_vec());
        if y[0].numel() == 0 {
            return smallvec![f.splat(0.0, &y[0].ty())];
        }
        let (mut low, mut high) = (vec![0i64; 4], vec![0i64; 4]);
        for k in 0..2 {
            low[2 + k] = b.pad[k] as i64;
            high[2 + k] = b.reach(k) as i64 - (b.image[k] + b.pad[k]) as i64;
        }
        let zero = f.scalar(0.0, x[0].element());
        let mut v = f.pad(&x[0], &zero, &low, &high, &[0; 4]);
        // [n, c, h, w] to [n, c, kh, oh, w] to [n, c, kh, kw, oh, ow].
        for k in 0..2 {
            let at = 2 + 2 * k;
            let shape = v.shape().to_vec();
            let parts: Vec<Value> = (0..b.kernel[k])
                .map(|i| {
                    let (mut start, mut limit, mut step) = (vec![0; shape.len()], shape.clone(), vec![1; shape.len()]);
                    start[at] = i * b.dilation[k];
                    limit[at] = start[at] + (b.count[k] - 1) * b.stride[k] + 1;
                    step[at] = b.stride[k];
                    let part = f.slice(&v, &start, &limit, &step);
                    let mut with_one = part.shape().to_vec();
                    with_one.insert(2 + k, 1);
                    f.reshape(&part, &with_one)
                })
                .collect();
            v = f.concatenate(&parts, 2 + k);
        }
        debug_assert_eq!(v.shape()[..2], d[..2]);
        smallvec![f.reshape(&v, &y[0].dims)]
    }
    fn vjp(&self, _: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec![Some(dispatch::call(Prim::Col2Im(Box::new(Col2Im(self.0))), &[g])?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

impl Op for Col2Im {
    const NAME: &'static str = "col2im";
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (d, b) = (x[0].dims(), &self.0);
        let channels = d[1] / (b.kernel[0] * b.kernel[1]);
        Ok(x[0].meta().with_dims(Dims::new(&[d[0], channels, b.image[0], b.image[1]])))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("n (c _) _ -> n c _ _", x, y).linear(&[0b1])
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        kernels::col2im(&x[0].view(), &self.0, &mut y[0].view_mut());
        Ok(())
    }
    /// Add up one spread slice for each column of the block, then one for each row.
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let (b, e) = (&self.0, x[0].element());
        if y[0].numel() == 0 || x[0].ty().numel() == 0 {
            return smallvec![f.splat(0.0, &y[0].ty())];
        }
        let wide = e.widened();
        let v = f.convert(&x[0], wide);
        let d = &y[0].dims;
        let mut v = f.reshape(&v, &[d[0], d[1], b.kernel[0], b.kernel[1], b.count[0], b.count[1]]);
        let zero = f.scalar(0.0, wide);
        // [n, c, kh, kw, oh, ow] to [n, c, kh, oh, w] to [n, c, h, w].
        for k in (0..2).rev() {
            let (from, mut total) = (2 + k, None);
            for i in 0..b.kernel[k] {
                let part = f.slice_dim(&v, from, i, i + 1);
                let mut shape = part.shape().to_vec();
                shape.remove(from);
                let part = f.reshape(&part, &shape);
                let at = 2 + 2 * k;
                let (mut low, mut high, mut inner) = (vec![0; shape.len()], vec![0; shape.len()], vec![0; shape.len()]);
                low[at] = (i * b.dilation[k]) as i64;
                high[at] = ((b.kernel[k] - 1 - i) * b.dilation[k]) as i64;
                inner[at] = b.stride[k] as i64 - 1;
                let part = f.pad(&part, &zero, &low, &high, &inner);
                total = Some(match total {
                    Some(t) => f.binary("stablehlo.add", &t, &part),
                    None => part,
                });
            }
            v = total.expect("a block has a size");
        }
        // The extent of the blocks, without padding, plus the pixels that no block covers.
        let (mut low, mut high) = (vec![0i64; 4], vec![0i64; 4]);
        for k in 0..2 {
            low[2 + k] = -(b.pad[k] as i64);
            high[2 + k] = (b.image[k] + b.pad[k]) as i64 - b.reach(k) as i64;
        }
        let v = f.pad(&v, &zero, &low, &high, &[0; 4]);
        smallvec![f.convert(&v, e)]
    }
    fn vjp(&self, _: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        Ok(smallvec![Some(dispatch::call(Prim::Im2Col(Box::new(Im2Col(self.0))), &[g])?)])
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}

/// The numbers of blocks that the user gave, checked, but not yet against an image.
struct Given([[i64; 2]; 4]);

impl Given {
    /// Kernel, dilation, padding, stride.
    fn new(a: &Args<'_>, first: usize) -> Result<Given> {
        let pair = |i: usize, what: &str| -> Result<[i64; 2]> {
            let v = a.ints(first + i)?;
            <[i64; 2]>::try_from(v)
                .map_err(|_| Error::runtime(format!("It is expected {what} equals to 2, but got size {}", v.len())))
        };
        let given = [pair(0, "kernel_size")?, pair(1, "dilation")?, pair(2, "padding")?, pair(3, "stride")?];
        let names = [("kernel size", "kernel"), ("dilation", "dilation"), ("padding", "pad"), ("stride", "stride")];
        // The order is PyTorch's.
        for i in [0, 3, 1, 2] {
            let ([h, w], (what, short)) = (given[i], names[i]);
            let (least, words) = if i == 2 { (0, "be non-negative") } else { (1, "be greater than zero") };
            if h < least || w < least {
                return Err(Error::runtime(format!(
                    "{what} should {words}, but got {short}_height: {h} {short}_width: {w}"
                )));
            }
        }
        Ok(Given(given))
    }
    /// Number of blocks, which may be zero or negative.
    fn count(&self, image: [i64; 2]) -> [i64; 2] {
        let [kernel, dilation, pad, stride] = self.0;
        std::array::from_fn(|d| (image[d] + 2 * pad[d] - (dilation[d] * (kernel[d] - 1) + 1)).div_euclid(stride[d]) + 1)
    }
    fn blocks(&self, image: [i64; 2]) -> Blocks {
        let whole = |v: [i64; 2]| v.map(|n| n as usize);
        let [kernel, dilation, pad, stride] = self.0.map(whole);
        Blocks { image: whole(image), kernel, stride, pad, dilation, count: whole(self.count(image)) }
    }
}

fn pair([a, b]: [i64; 2]) -> String {
    format!("({a}, {b})")
}

fn check_dtype(x: &Tensor, name: &str) -> Result<()> {
    if x.dtype().is_inexact() || x.dtype() == DType::Bool {
        return Ok(());
    }
    Err(Error::not_implemented(format!("\"{name}\" not implemented for '{}'", x.dtype().scalar_type())))
}

/// Run an op of batches on a single image too, and on truth values as numbers.
fn batched(x: &Tensor, rank: usize, op: Prim) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return crate::ops::complex::by_parts(x, |x| batched(x, rank, op.clone()));
    }
    let wide = if x.dtype() == DType::Bool { x.to_dtype(DType::F32)? } else { x.clone() };
    let y = if x.dims().len() == rank {
        dispatch::call(op, &[&wide])?
    } else {
        dispatch::call(op, &[&wide.unsqueeze(0)?])?.squeeze(0)?
    };
    y.to_dtype(x.dtype())
}

fn im2col(a: &Args<'_>) -> Result<Tensor> {
    let x = a.tensor(0)?;
    let given = Given::new(a, 1)?;
    let d = x.dims();
    if d.len() < 3 || d.len() > 4 || d[d.len() - 3..].contains(&0) {
        return Err(Error::runtime(format!(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, \
            but got: {d}"
        )));
    }
    check_dtype(x, "im2col_out_cpu")?;
    let image = [d[d.len() - 2] as i64, d[d.len() - 1] as i64];
    let count = given.count(image);
    if count[0] < 1 || count[1] < 1 {
        return Err(Error::runtime(format!(
            "Given input with spatial size {}, kernel_size={}, dilation={}, padding={}, calculated shape of the array \
            of sliding blocks as {}, but its components must be at least one.",
            pair(image),
            pair(given.0[0]),
            pair(given.0[1]),
            pair(given.0[2]),
            pair(count)
        )));
    }
    batched(x, 4, Prim::Im2Col(Box::new(Im2Col(given.blocks(image)))))
}

fn col2im(a: &Args<'_>) -> Result<Tensor> {
    let x = a.tensor(0)?;
    let image = <[i64; 2]>::try_from(a.ints(1)?).map_err(|_| {
        Error::runtime(format!(
            "It is expected output_size equals to 2, but got size {}",
            a.ints(1).map_or(0, <[i64]>::len)
        ))
    })?;
    let given = Given::new(a, 2)?;
    let d = x.dims();
    if d.len() < 2 || d.len() > 3 || d[d.len() - 2..].contains(&0) {
        return Err(Error::runtime(format!(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for \
            input, but got: {d}"
        )));
    }
    let lead = d.len() - 2;
    let [kernel, dilation, pad, stride] = given.0;
    if d[lead] as i64 % (kernel[0] * kernel[1]) != 0 {
        return Err(Error::runtime(format!(
            "Expected size of input's dimension {lead} to be divisible by the product of kernel_size, but got \
            input.size({lead})={} and kernel_size={}.",
            d[lead],
            pair(kernel)
        )));
    }
    let count = given.count(image);
    if count[0] * count[1] != d[lead + 1] as i64 || count[0] < 1 || count[1] < 1 {
        return Err(Error::runtime(format!(
            "Given output_size={}, kernel_size={}, dilation={}, padding={}, stride={}, expected size of input's \
            dimension {} to match the calculated number of sliding blocks {} * {} = {}, but got input.size({})={}.",
            pair(image),
            pair(kernel),
            pair(dilation),
            pair(pad),
            pair(stride),
            lead + 1,
            count[0],
            count[1],
            count[0] * count[1],
            lead + 1,
            d[lead + 1]
        )));
    }
    check_dtype(x, "col2im_out_cpu")?;
    batched(x, 3, Prim::Col2Im(Box::new(Col2Im(given.blocks(image)))))
}

// ------------------------------------------------------------------------------------------------ channels

/// Split `[.., c, h, w]` into its leading sizes and the last three.
fn image_sizes(x: &Tensor, op: &str) -> Result<(Vec<usize>, [usize; 3])> {
    let d = x.dims();
    if d.len() < 3 {
        return Err(Error::runtime(format!(
            "{op} expects input to have at least 3 dimensions, but got input with {} dimension(s)",
            d.len()
        )));
    }
    let lead = d.len() - 3;
    Ok((d[..lead].to_vec(), [d[lead], d[lead + 1], d[lead + 2]]))
}

/// Reshape the last dimensions, reorder them, and reshape them again. The `lead` sizes stay in front.
fn rearranged(x: &Tensor, lead: &[usize], apart: &[usize], order: &[usize], joined: &[usize]) -> Result<Tensor> {
    // The leading dimensions are merged in between, so that there are never too many.
    let count: usize = lead.iter().product();
    let first = Dims::try_new(&[&[count], apart].concat())?;
    let order: Vec<i64> = std::iter::once(0).chain(order.iter().map(|&i| i as i64 + 1)).collect();
    x.reshape_dims(first)?
        .permute(&order)?
        .reshape_dims(Dims::try_new(&[lead, joined].concat())?)?
        .contiguous()?
        .in_format_of(x)
}

/// `torch.pixel_shuffle`: turn `r * r` channels into a square of pixels.
///
/// # Errors
/// `Runtime` when the channels do not divide, or for a factor below one.
pub fn pixel_shuffle(x: &Tensor, factor: i64) -> Result<Tensor> {
    let (lead, [c, h, w]) = image_sizes(x, "pixel_shuffle")?;
    if factor <= 0 {
        return Err(Error::runtime(format!("pixel_shuffle expects a positive upscale_factor, but got {factor}")));
    }
    let square = factor
        .checked_mul(factor)
        .ok_or_else(|| Error::runtime("upscale factor is too large, (upscale_factor * upscale_factor) overflowed"))?;
    if c as i64 % square != 0 {
        return Err(Error::runtime(format!(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, \
            but input.size(-3)={c} is not divisible by {square}"
        )));
    }
    let r = factor as usize;
    let c = c / (r * r);
    rearranged(x, &lead, &[c, r, r, h, w], &[0, 3, 1, 4, 2], &[c, h * r, w * r])
}

/// `torch.pixel_unshuffle`, the inverse of [`pixel_shuffle`].
///
/// # Errors
/// `Runtime` when height or width do not divide, or for a factor below one.
pub fn pixel_unshuffle(x: &Tensor, factor: i64) -> Result<Tensor> {
    let (lead, [c, h, w]) = image_sizes(x, "pixel_unshuffle")?;
    if factor <= 0 {
        return Err(Error::runtime(format!("pixel_unshuffle expects a positive downscale_factor, but got {factor}")));
    }
    for (n, name, at) in [(h, "height", -2), (w, "width", -1)] {
        if n as i64 % factor != 0 {
            return Err(Error::runtime(format!(
                "pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({at})={n} is not \
                divisible by {factor}"
            )));
        }
    }
    let r = factor as usize;
    let (h, w) = (h / r, w / r);
    rearranged(x, &lead, &[c, h, r, w, r], &[0, 2, 4, 1, 3], &[c * r * r, h, w])
}

/// `torch.channel_shuffle`: take one channel of each group in turn.
///
/// # Errors
/// `Runtime` when groups do not divide the channels.
pub fn channel_shuffle(x: &Tensor, groups: i64) -> Result<Tensor> {
    let d = x.dims();
    if d.len() <= 2 {
        return Err(Error::runtime(format!(
            "channel_shuffle expects input with > 2 dims, but got input with sizes {d}"
        )));
    }
    if groups <= 0 {
        return Err(Error::runtime(format!(
            "Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )));
    }
    if d[1] as i64 % groups != 0 {
        return Err(Error::runtime(format!(
            "Number of channels must be divisible by groups. Got {} channels and {groups} groups.",
            d[1]
        )));
    }
    let (g, rest) = (groups as usize, d[2..].iter().product());
    rearranged(x, &d[..1], &[g, d[1] / g, rest], &[1, 0, 2], &d[1..])
}

// ------------------------------------------------------------------------------------------------ maxima put back

fn list(v: &[i64]) -> String {
    format!("[{}]", v.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
}

/// `x` at the positions where a max pooling of an output of the given size found it, else zero.
fn max_unpool(x: &Tensor, at: &Tensor, out: &[i64]) -> Result<Tensor> {
    let (spatial, d) = (out.len(), x.dims());
    crate::state::alert_not_deterministic(&format!("max_unpooling{spatial}d_forward_out"))?;
    if at.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "elements in indices should be type int64 but got: {}",
            at.dtype().scalar_type()
        )));
    }
    if d.len() != spatial + 1 && d.len() != spatial + 2 {
        return Err(Error::runtime(format!(
            "Input to max_unpooling{spatial}d should be a {}d or {}d Tensor, but got a tensor with {} dimensions.",
            spatial + 1,
            spatial + 2,
            d.len()
        )));
    }
    if at.dims() != d {
        return Err(Error::runtime(format!(
            "Expected shape of indices to be same as that of the input tensor ({d}) but got indices tensor with shape: \
            {}",
            at.dims()
        )));
    }
    if !x.dtype().is_float() {
        return Err(Error::not_implemented(format!(
            "\"max_unpool{spatial}d\" not implemented for '{}'",
            x.dtype().scalar_type()
        )));
    }
    let lead = d.len() - spatial;
    if let Some(i) = (lead - 1..d.len()).find(|&i| d[i] == 0) {
        return Err(Error::runtime(format!(
            "max_unpooling{spatial}d_forward_out_cpu(): Expected input to have non-zero size for non-batch dimensions, \
            but input has sizes {d} with dimension {i} being empty"
        )));
    }
    let out_dims = sizes(out)?;
    let plane = out_dims.numel();
    let flat = |last: usize| -> Dims { d[..lead].iter().copied().chain([last]).collect() };
    let whole: Dims = d[..lead].iter().chain(&out_dims).copied().collect();
    let zeros = Tensor::zeros_like_meta(&x.meta().with_dims(flat(plane)))?;
    let each: usize = d[lead..].iter().product();
    let (v, at) = (x.reshape_dims(flat(each))?, at.reshape_dims(flat(each))?);
    let volume = out.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
    let invalid =
        move |i: i64| Error::runtime(format!("Found an invalid max index: {i} (output volumes are of size {volume}"));
    let op = Scatter { dim: lead, kind: ScatterKind::Set, include_self: true };
    let at = guard(&at, 0, plane, invalid.clone())?;
    let y = match dispatch::call(Prim::Scatter(op), &[&zeros, &at, &v]) {
        Ok(y) => y,
        Err(e) => {
            let outside = |v: Vec<i64>| v.into_iter().find(|&i| i < 0 || i as usize >= plane);
            return Err(at.to_vec::<i64>().ok().and_then(outside).map_or(e, invalid));
        }
    };
    y.reshape_dims(whole)
}

fn max_unpool2d(a: &Args<'_>) -> Result<Tensor> {
    let out = a.ints(2)?;
    if out.len() != 2 {
        return Err(Error::runtime(format!(
            "There should be exactly two elements (height, width) in output_size, but got {} elements.",
            out.len()
        )));
    }
    max_unpool(a.tensor(0)?, a.tensor(1)?, out)?.in_format_of(a.tensor(0)?)
}

fn max_unpool3d(a: &Args<'_>) -> Result<Tensor> {
    for (i, name, colon) in [(2, "output_size", ""), (3, "stride", ":"), (4, "padding", ":")] {
        let v = a.ints(i)?;
        if v.len() != 3 {
            return Err(Error::runtime(format!(
                "There should be exactly three elements (depth, height, width) in {name}, but got{colon} {} elements.",
                v.len()
            )));
        }
    }
    if a.ints(3)?.iter().any(|&s| s <= 0) {
        return Err(Error::runtime(format!(
            "strides should be greater than zero, but got stride: {}",
            list(a.ints(3)?)
        )));
    }
    max_unpool(a.tensor(0)?, a.tensor(1)?, a.ints(2)?)
}

const TYPES: &[DType] = &[DType::F64, DType::BF16, DType::F16];

/// Rows of the family.
pub const ROWS: &[Row] = &[
    Row::new(
        "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
        Tier::Prim,
        |a| Ok(im2col(a)?.into()),
        || {
            vec![
                Sample::new(vec![t(&[2, 2, 5, 4]), ints(&[2, 3]), ints(&[1, 1]), ints(&[0, 0]), ints(&[1, 1])])
                    .dtypes(TYPES),
                Sample::new(vec![t(&[2, 5, 6]), ints(&[2, 2]), ints(&[2, 1]), ints(&[1, 2]), ints(&[2, 3])]),
                Sample::new(vec![t(&[0, 2, 5, 4]), ints(&[2, 3]), ints(&[1, 1]), ints(&[0, 0]), ints(&[1, 1])]),
            ]
        },
    )
    .doc(
        "Return the sliding blocks of `input` as columns: `(n, c, h, w)` gives `(n, c * kh * kw, blocks)`, and `(c, \
         h, w)` gives `(c * kh * kw, blocks)`. Blocks are in row-major order, `(h + 2 * padding - dilation * (kh - 1) \
         - 1) // stride + 1` of them down and likewise across. All numbers are pairs `(height, width)`. Zeros stand \
         where a block reaches beyond the image. Integers raise `NotImplementedError`.",
    )
    .scope(Scope::Nn),
    Row::new(
        "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] \
        stride) -> Tensor",
        Tier::Prim,
        |a| Ok(col2im(a)?.into()),
        || {
            vec![
                Sample::new(vec![
                    t(&[2, 12, 8]),
                    ints(&[5, 4]),
                    ints(&[2, 3]),
                    ints(&[1, 1]),
                    ints(&[0, 0]),
                    ints(&[1, 1]),
                ])
                .dtypes(TYPES),
                Sample::new(vec![
                    t(&[8, 9]),
                    ints(&[5, 6]),
                    ints(&[2, 2]),
                    ints(&[2, 1]),
                    ints(&[1, 2]),
                    ints(&[2, 3]),
                ]),
            ]
        },
    )
    .doc(
        "Return the images whose blocks `input` holds as columns, where overlapping elements are summed: `(n, c * kh \
         * kw, blocks)` gives `(n, c, h, w)` with `output_size=(h, w)`. It is the adjoint of `im2col` with the same \
         numbers, not its inverse. `(c * kh * kw, blocks)` gives `(c, h, w)`. A number of blocks that does not fit \
         `output_size` raises `RuntimeError`.",
    )
    .scope(Scope::Nn),
    Row::new(
        "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
        Tier::Composed,
        |a| Ok(pixel_shuffle(a.tensor(0)?, a.int(1)?)?.into()),
        samples!([t(&[2, 8, 2, 3]), n(2)], [t(&[2, 1, 9, 1, 2]), n(3)]),
    )
    .doc(
        "Return `input` `(..., c * r * r, h, w)` rearranged to `(..., c, h * r, w * r)`, with `r = upscale_factor`. \
         Each run of `r * r` channels becomes the squares of `r` by `r` pixels of one channel. Any dtype. Channels \
         that `r * r` does not divide raise `RuntimeError`.",
    )
    .no_out()
    .scope(Scope::Function),
    Row::new(
        "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
        Tier::Composed,
        |a| Ok(pixel_unshuffle(a.tensor(0)?, a.int(1)?)?.into()),
        samples!([t(&[2, 2, 4, 6]), n(2)], [t(&[1, 3, 6]), n(3)]),
    )
    .doc(
        "Return `input` `(..., c, h * r, w * r)` rearranged to `(..., c * r * r, h, w)`, with `r = downscale_factor`. \
         It is the inverse of `torch.pixel_shuffle`. A height or width that `r` does not divide raises \
         `RuntimeError`.",
    )
    .no_out()
    .scope(Scope::Function),
    Row::new(
        "channel_shuffle(Tensor self, SymInt groups) -> Tensor",
        Tier::Composed,
        |a| Ok(channel_shuffle(a.tensor(0)?, a.int(1)?)?.into()),
        samples!([t(&[2, 6, 3]), n(2)], [t(&[2, 4, 2, 2]), n(4)]),
    )
    .doc(
        "Return `input` `(n, c, ...)` with its channels in another order: the first one of each of `groups` runs, \
         then the second one of each, and so on. `input` has three dimensions or more, and `groups` divides `c`.",
    )
    .no_out()
    .scope(Scope::Function),
    Row::new(
        "native_channel_shuffle(Tensor self, SymInt groups) -> Tensor",
        Tier::Composed,
        |a| Ok(channel_shuffle(a.tensor(0)?, a.int(1)?)?.into()),
        samples!([t(&[2, 6, 3]), n(3)]),
    )
    .doc("Alias of `torch.channel_shuffle`.")
    .no_out()
    .scope(Scope::Function),
    Row::new(
        "max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
        Tier::Composed,
        |a| Ok(max_unpool2d(a)?.into()),
        samples!([t(&[1, 2, 1, 3]), index(&[1, 2, 1, 3], 16), ints(&[4, 4])]),
    )
    .doc(
        "Return zeros of `output_size` with the elements of `input` at `indices`. `input` is floating point `(n, c, \
         h, w)` or `(c, h, w)`. `indices` has its shape and dtype `int64`, and holds flat positions within each \
         plane, as `torch.nn.functional.max_pool2d` returns them. An index outside the plane raises `RuntimeError`. \
         Where an index stands twice, one of the elements is kept.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::cpu(Policy::Full)),
    Row::new(
        "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor",
        Tier::Composed,
        |a| Ok(max_unpool3d(a)?.into()),
        samples!([t(&[2, 1, 1, 3]), index(&[2, 1, 1, 3], 16), ints(&[2, 2, 4]), ints(&[2, 2, 2]), ints(&[0, 0, 0])]),
    )
    .doc(
        "Return zeros of `output_size`, `(depth, height, width)`, with the elements of `input` at `indices`. `input` \
         is floating point `(n, c, d, h, w)` or `(c, d, h, w)`. `indices` has its shape and dtype `int64`, and holds \
         flat positions within each volume. `stride` and `padding` are checked, but do not change the result.",
    )
    .scope(Scope::Nn)
    .autocast(Policies::cpu(Policy::Full)),
];
