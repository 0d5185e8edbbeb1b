//! Views: `Permute`, `Expand`, `Slice`, `Reshape`, `AsStrided`, and functions composed of them.

mod bits;
mod methods;
mod rearrange;
mod rows;
mod split;
pub(crate) use split::collected;

pub use bits::Bits;
pub use rearrange::ROWS as REARRANGE_ROWS;
pub use rows::{COPY_ROWS, ROWS};

use crate::axes::{Axes, all_whole, names};
use crate::op::{Facts, Func, Layout, Prim, Value, ViewOp};
use crate::{Dims, Error, Meta, Result, Tensor, dispatch};
use smallvec::{SmallVec, smallvec};

/// Reorders dimensions: output dimension `i` is input dimension `self.0[i]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Permute(pub Dims);

impl Permute {
    pub(crate) fn inverse(&self) -> Dims {
        let mut inv = self.0;
        inv.edit(|inv| self.0.iter().enumerate().for_each(|(i, &d)| inv[d] = i));
        inv
    }
}

impl ViewOp for Permute {
    const NAME: &'static str = "permute";
    const FACTS: Facts = Facts { is_window: true, ..Facts::NONE };
    fn layout(&self, x: &Layout) -> Result<Layout> {
        let pick = |d: &Dims| self.0.iter().map(|&i| d[i]).collect();
        Ok(Layout { dims: pick(&x.dims), strides: pick(&x.strides), offset: x.offset })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let operand: Vec<String> = names("d", x[0].dims.len()).collect();
        let result: Vec<&str> = self.0.iter().map(|&d| operand[d].as_str()).collect();
        Axes::parse(&format!("{} -> {}", operand.join(" "), result.join(" ")), x, y).linear(&[0b1])
    }
    fn lower(&self, f: &mut Func, x: &Value, _: &Meta) -> Value {
        f.transpose(x, &self.0)
    }
    fn vjp(&self, _: &Meta, g: &Tensor) -> Result<Tensor> {
        dispatch::call_view(Prim::Permute(Permute(self.inverse())), g)
    }
    fn write_back(&self, _: &Tensor, y: &Tensor) -> Result<Tensor> {
        dispatch::call_view(Prim::Permute(Permute(self.inverse())), y)
    }
}

/// Repeats dimensions of size one, and adds dimensions in front, without copying.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Expand(pub Dims);

impl ViewOp for Expand {
    const NAME: &'static str = "expand";
    const FACTS: Facts = Facts { is_window: true, ..Facts::NONE };
    fn layout(&self, x: &Layout) -> Result<Layout> {
        let shift = self.0.len() - x.dims.len();
        let mut strides = self.0;
        strides.edit(|strides| {
            for i in (0..self.0.len()).rev() {
                strides[i] = match i.checked_sub(shift) {
                    Some(d) if x.dims[d] == self.0[i] => x.strides[d],
                    // A new dimension of size one continues the next one, as in PyTorch.
                    None if self.0[i] == 1 => self.0.get(i + 1).map_or(1, |n| n * strides[i + 1]),
                    _ => 0,
                };
            }
        });
        Ok(Layout { dims: self.0, strides, offset: x.offset })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::elementwise(x, y).linear(&[0b1])
    }
    fn resized(&self, _: &[Meta], y: &[Meta]) -> Expand {
        Expand(y[0].dims)
    }
    fn lower(&self, f: &mut Func, x: &Value, _: &Meta) -> Value {
        f.broadcast_to(x, &self.0)
    }
    fn vjp(&self, x: &Meta, g: &Tensor) -> Result<Tensor> {
        g.sum_to(&x.dims)
    }
    fn write_back(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        // In-place writes to repeated elements are refused earlier, so here every element has one place.
        y.reshape_dims(*x.dims())
    }
}

/// Takes `start..end` by `step` of one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slice {
    /// The dimension.
    pub dim: usize,
    /// First index.
    pub start: usize,
    /// Number of elements taken.
    pub len: usize,
    /// Distance between them.
    pub step: usize,
}

impl Slice {
    /// Number of elements from the first one taken to the last.
    pub(crate) fn span(&self) -> usize {
        if self.len == 0 { 0 } else { (self.len - 1) * self.step + 1 }
    }
    /// Number of elements between two that are taken.
    pub(crate) fn between(&self) -> usize {
        if self.len < 2 { 0 } else { self.step - 1 }
    }
    /// The elements of `x`.
    pub(crate) fn take(&self, f: &mut Func, x: &Value) -> Value {
        let (mut start, mut limit, mut stride) = (vec![0; x.rank()], x.shape().to_vec(), vec![1; x.rank()]);
        start[self.dim] = self.start;
        limit[self.dim] = self.start + self.span();
        stride[self.dim] = self.between() + 1;
        f.slice(x, &start, &limit, &stride)
    }
}

impl ViewOp for Slice {
    const NAME: &'static str = "slice";
    const FACTS: Facts = Facts { is_window: true, ..Facts::NONE };
    fn layout(&self, x: &Layout) -> Result<Layout> {
        let mut l = *x;
        l.dims.set(self.dim, self.len);
        // The slice has at most one element if the stride wraps around.
        l.strides.set(self.dim, x.strides[self.dim].wrapping_mul(self.step));
        // An empty slice at the end stays within the storage.
        l.offset += if self.len == 0 { 0 } else { self.start * x.strides[self.dim] };
        Ok(l)
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        // The positions of other slices are counted from the start of the dimension.
        let is_whole = self.start == 0 && self.step == 1 && self.len == x[0].dims[self.dim];
        Axes::except(if is_whole { 0 } else { 1 << self.dim }, x, y).linear(&[0b1])
    }
    fn resized(&self, _: &[Meta], y: &[Meta]) -> Slice {
        Slice { len: y[0].dims[self.dim], ..*self }
    }
    fn lower(&self, f: &mut Func, x: &Value, _: &Meta) -> Value {
        self.take(f, x)
    }
    fn vjp(&self, x: &Meta, g: &Tensor) -> Result<Tensor> {
        super::pad::unslice(g, self, x.dims[self.dim])
    }
    fn write_back(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        super::pad::slice_scatter(x, y, *self)
    }
}

/// The same elements in row-major order with other sizes. As a view it needs strides that allow it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reshape(pub Dims);

/// Strides of a view with other sizes, if elements need not move.
pub(crate) fn reshaped_strides(dims: &Dims, strides: &Dims, out: &Dims) -> Option<Dims> {
    if dims.numel() == 0 {
        return Some(if dims == out { *strides } else { out.contiguous_strides() });
    }
    // Runs of input dimensions that are contiguous with one another are split into output dimensions, from the right.
    let mut r: SmallVec<[usize; 8]> = smallvec![0; out.len()];
    let mut o = out.len();
    let mut run_elements = 1;
    let mut run_stride = strides.last().copied().unwrap_or(1);
    for i in (0..dims.len()).rev() {
        run_elements *= dims[i];
        let ends = i == 0 || (dims[i - 1] != 1 && strides[i - 1] != run_elements * run_stride);
        if ends {
            let mut taken = 1;
            while o > 0 && (taken < run_elements || out[o - 1] == 1) {
                r[o - 1] = taken * run_stride;
                taken *= out[o - 1];
                o -= 1;
            }
            if taken != run_elements {
                return None;
            }
            if i > 0 {
                run_elements = 1;
                run_stride = strides[i - 1];
            }
        }
    }
    while o > 0 {
        // Only sizes of one can be left.
        if out[o - 1] != 1 {
            return None;
        }
        r[o - 1] = if o < out.len() { r[o] * out[o] } else { 1 };
        o -= 1;
    }
    Some(Dims::new(&r))
}

impl ViewOp for Reshape {
    const NAME: &'static str = "view";
    const FACTS: Facts = Facts { is_window: true, ..Facts::NONE };
    fn layout(&self, x: &Layout) -> Result<Layout> {
        if x.dims == self.0 {
            return Ok(*x);
        }
        match reshaped_strides(&x.dims, &x.strides, &self.0) {
            Some(strides) => Ok(Layout { dims: self.0, strides, offset: x.offset }),
            None => Err(Error::runtime(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across \
                two contiguous subspaces). Use .reshape(...) instead.",
            )),
        }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::reshape(x, y).linear(&[0b1])
    }
    fn resized(&self, _: &[Meta], y: &[Meta]) -> Reshape {
        Reshape(y[0].dims)
    }
    fn lower(&self, f: &mut Func, x: &Value, _: &Meta) -> Value {
        f.reshape(x, &self.0)
    }
    fn vjp(&self, x: &Meta, g: &Tensor) -> Result<Tensor> {
        g.reshape_dims(x.dims)
    }
    fn write_back(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        y.reshape_dims(*x.dims())
    }
}

/// A window on the storage with any sizes, strides and offset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AsStrided {
    /// Sizes.
    pub dims: Dims,
    /// Strides in elements.
    pub strides: Dims,
    /// Index of the first element.
    pub offset: usize,
    /// Whether strides and offset count the input's own elements, row major, instead of those of the storage.
    pub own: bool,
}

/// The numbers of steps along each dimension that make up `distance`, for steps of `strides`, the largest stride first.
fn steps(mut distance: usize, dims: &Dims, strides: &Dims) -> Option<Dims> {
    let mut steps: SmallVec<[usize; 8]> = smallvec![0; dims.len()];
    let mut order: Vec<usize> = (0..dims.len()).filter(|&d| dims[d] > 1).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(strides[d]));
    for d in order {
        if let Some(n) = distance.checked_div(strides[d]) {
            steps[d] = n;
            distance %= strides[d];
        }
    }
    (distance == 0).then(|| Dims::new(&steps))
}

/// The distance of these numbers of steps along the dimensions.
fn distance(steps: &Dims, strides: &Dims) -> usize {
    steps.iter().zip(strides).map(|(n, s)| n * s).sum()
}

impl AsStrided {
    /// Index after the last element that a window can reach.
    pub(crate) fn end(&self) -> usize {
        let last: usize =
            self.dims.iter().zip(&self.strides).map(|(n, s)| n.saturating_sub(1).saturating_mul(*s)).sum();
        self.offset.saturating_add(last).saturating_add(1)
    }
    /// The same window on elements with the layout `to` instead of `from`. `None` if the window leaves them, or does
    /// not follow their dimensions.
    fn moved(&self, from: &Layout, to: &Layout, own: bool) -> Option<AsStrided> {
        if from.dims.iter().zip(&from.strides).any(|(n, s)| *n > 1 && *s == 0) {
            return None;
        }
        let mut last = steps(self.offset.checked_sub(from.offset)?, &from.dims, &from.strides)?;
        let mut w = AsStrided { offset: to.offset + distance(&last, &to.strides), own, ..*self };
        for (k, (&n, &stride)) in self.dims.iter().zip(&self.strides).enumerate() {
            // The stride of a dimension of size one has no meaning.
            let step = steps(if n > 1 { stride } else { 0 }, &from.dims, &from.strides)?;
            w.strides.set(k, distance(&step, &to.strides));
            last.edit(|last| last.iter_mut().zip(&step).for_each(|(l, s)| *l += n.saturating_sub(1) * s));
        }
        last.iter().zip(&from.dims).all(|(l, n)| l < n).then_some(w)
    }
    /// The same window counted in the elements of `x`, if all of it lies in them.
    pub(crate) fn within(&self, x: &Tensor) -> Option<AsStrided> {
        self.moved(&Layout::of(x), &Layout::contiguous(*x.dims()), true)
    }
    /// The window on the storage of `x`, as a result of `x`. Elements of the window outside of `x` get no gradient.
    ///
    /// # Errors
    /// `Runtime` when the window reaches beyond the storage.
    pub(crate) fn beyond(&self, x: &Tensor) -> Result<Tensor> {
        let y = crate::state::no_grad(|| dispatch::call_view(Prim::AsStrided(Box::new(*self)), x))?;
        let start = self.offset.min(x.storage_offset());
        let from_start =
            |dims: Dims, strides: Dims, offset: usize| AsStrided { dims, strides, offset: offset - start, own: false };
        let backward = BeyondBackward {
            window: from_start(self.dims, self.strides, self.offset),
            operand: from_start(*x.dims(), *x.strides(), x.storage_offset()),
            repeats: crate::inplace::repeats_elements(x),
        };
        crate::graph::with_backward(&y, &[x], Box::new(backward))
    }
    /// Element type of positions in a program.
    fn ty(&self) -> torchtpu_stablehlo::Type {
        torchtpu_stablehlo::Type::new(&self.dims, torchtpu_stablehlo::ElementType::S64)
    }
    /// The elements of `x` at the window's positions, whose first is `first`.
    pub(crate) fn take(&self, f: &mut Func, x: &Value, first: &Value, y: &Meta) -> Value {
        let flat = f.reshape(x, &[x.ty().numel()]);
        // Compute positions from iotas, so that the program does not grow with the window.
        let mut at = first.clone();
        for (d, &s) in self.strides.iter().enumerate() {
            let i = f.iota(&self.ty(), d);
            let step = f.splat_i64(s as i64, &self.ty());
            let i = f.binary("stablehlo.multiply", &i, &step);
            at = f.binary("stablehlo.add", &at, &i);
        }
        let taken = f.take(&flat, &at, 0);
        f.reshape(&taken, &y.dims)
    }
    /// Flat positions of the window's elements, row major.
    pub(crate) fn positions(&self) -> Vec<i64> {
        // Without elements, sizes and strides may be any numbers.
        if self.dims.contains(&0) {
            return Vec::new();
        }
        crate::memory::expect_room(self.dims.numel().saturating_mul(3 * size_of::<i64>()));
        let mut p = vec![self.offset as i64];
        for (&n, &s) in self.dims.iter().zip(&self.strides) {
            p = crate::memory::collect(p.iter().flat_map(|&b| (0..n).map(move |i| b + (i * s) as i64)));
        }
        p
    }
}

/// The gradient of a window that reaches beyond the elements of its operand. Places are counted from the first element
/// of either.
struct BeyondBackward {
    window: AsStrided,
    operand: AsStrided,
    repeats: bool,
}

impl crate::graph::BackwardFn for BeyondBackward {
    fn name(&self) -> String {
        "AsStridedBackward0".to_string()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<crate::op::Grads> {
        let Some(g) = g.first().and_then(Option::as_ref) else { return Ok(smallvec![None]) };
        let places = |w: &AsStrided| Tensor::from_slice_on(&w.positions(), &[w.dims.numel()], g.place());
        let (from, to) = (places(&self.window)?, places(&self.operand)?);
        let memory = g.meta().with_dims(Dims::new(&[self.window.end().max(self.operand.end())]));
        let added = |at: &Tensor, g: &Tensor| {
            let flat = g.reshape_dims(Dims::new(&[g.numel()]))?;
            super::indexing::index_add(&Tensor::zeros_like_meta(&memory)?, 0, at, &flat)
        };
        let mut sum = added(&from, g)?;
        if self.repeats {
            // Elements in one place share its gradient.
            let ones = Tensor::full_meta(&memory.with_dims(self.operand.dims), crate::Scalar::Int(1))?;
            sum = sum.div(&added(&to, &ones)?.maximum_scalar(1)?)?;
        }
        Ok(smallvec![Some(sum.index_select(0, &to)?.reshape_dims(self.operand.dims)?)])
    }
    fn is_view_output(&self, _nr: u32) -> bool {
        true
    }
}

impl ViewOp for AsStrided {
    const NAME: &'static str = "as_strided";
    fn layout(&self, x: &Layout) -> Result<Layout> {
        let w = match self.own {
            true => self.moved(&Layout::contiguous(x.dims), x, false).ok_or_else(|| {
                Error::runtime(format!(
                    "as_strided: a window of sizes {} leaves a tensor of sizes {}",
                    self.dims, x.dims
                ))
            })?,
            false => *self,
        };
        Ok(Layout { dims: w.dims, strides: w.strides, offset: w.offset })
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        // For all axes but the operand's outermost one, a part would need other strides.
        let own = Layout::contiguous(x[0].dims);
        let of_rows = |&k: &usize| {
            let Some((w, rows)) = self.moved(&own, &own, true).zip(x[0].dims.first()) else { return false };
            let others = (0..w.dims.len()).filter(|&j| j != k && w.dims[j] > 1);
            let inner: usize = others.map(|j| (w.dims[j] - 1) * w.strides[j]).sum();
            w.dims[k] == *rows && w.strides[k] == own.strides[0] && w.offset + inner < own.strides[0]
        };
        let rows = (0..self.dims.len()).find(of_rows);
        let operand =
            format!("{} {}", if rows.is_some() { "n" } else { "_" }, all_whole(x[0].dims.len().saturating_sub(1)));
        let result: Vec<&str> = (0..self.dims.len()).map(|k| if Some(k) == rows { "n" } else { "_" }).collect();
        let operand = if x[0].dims.is_empty() { String::new() } else { operand };
        Axes::parse(&format!("{operand} -> {}", result.join(" ")), x, y).linear(&[0b1])
    }
    fn resized(&self, _: &[Meta], y: &[Meta]) -> AsStrided {
        AsStrided { dims: y[0].dims, ..*self }
    }
    fn lower(&self, f: &mut Func, x: &Value, y: &Meta) -> Value {
        let first = f.splat_i64(self.offset as i64, &self.ty());
        self.take(f, x, &first, y)
    }
    fn vjp(&self, x: &Meta, g: &Tensor) -> Result<Tensor> {
        let flat = Tensor::zeros_like_meta(&x.with_dims(Dims::new(&[x.numel()])))?;
        let at = Tensor::from_slice_on(&self.positions(), &[self.dims.numel()], x.place)?;
        super::indexing::index_add(&flat, 0, &at, &g.reshape_dims(Dims::new(&[self.dims.numel()]))?)?
            .reshape_dims(x.dims)
    }
    fn write_back(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let flat = x.reshape_dims(Dims::new(&[x.numel()]))?;
        let mut at = self.positions();
        let mut y = y.clone();
        if crate::overlap::may_overlap(&self.dims, &self.strides) {
            let (places, elements) = crate::overlap::last_writes(&self.dims, &[&self.strides, y.strides()]);
            at = places.iter().map(|p| p + self.offset as i64).collect();
            let elements = Tensor::from_slice_on(&elements, &[elements.len()], x.place())?;
            y = super::indexing::index_select_in_range(&y.reshape(&[-1])?, 0, &elements)?;
        }
        let at = Tensor::from_slice_on(&at, &[at.len()], x.place())?;
        super::indexing::index_copy(&flat, 0, &at, &y.reshape_dims(Dims::new(&[y.numel()]))?)?.reshape_dims(*x.dims())
    }
}

/// Sizes with at most one -1, which is replaced by the size that fits.
///
/// # Errors
/// `Runtime`, in PyTorch's wording.
pub fn infer_size(sizes: &[i64], numel: usize) -> Result<Dims> {
    let mut unknown = None;
    let mut known: usize = 1;
    Dims::check_rank(sizes.len())?;
    let mut dims: SmallVec<[usize; 8]> = smallvec![0; sizes.len()];
    for (i, &s) in sizes.iter().enumerate() {
        match s {
            -1 if unknown.is_some() => return Err(Error::runtime("only one dimension can be inferred")),
            -1 => unknown = Some(i),
            s if s < 0 => {
                return Err(Error::runtime(format!("invalid shape dimension {s} at index {i} of shape {sizes:?}")));
            }
            s => {
                dims[i] = s as usize;
                known = known.saturating_mul(s as usize);
            }
        }
    }
    let invalid = || Error::runtime(format!("shape '{sizes:?}' is invalid for input of size {numel}"));
    match unknown {
        Some(_) if known == 0 && numel > 0 => Err(invalid()),
        Some(_) if known == 0 => Err(Error::runtime(format!(
            "cannot reshape tensor of 0 elements into shape {sizes:?} because the unspecified dimension size -1 can be \
            any value and is ambiguous"
        ))),
        Some(i) if numel.is_multiple_of(known) => {
            dims[i] = numel / known;
            Ok(Dims::new(&dims))
        }
        None if known == numel => Ok(Dims::new(&dims)),
        _ => Err(invalid()),
    }
}
