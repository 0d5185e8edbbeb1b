//! Views: `Permute`, `Expand`, `Slice`, `Reshape`, `AsStrided`; and what is made of them.

use crate::op::{Func, Layout, Prim, Value, ViewOp, normalize_dim};
use crate::schema::{Row, Sample, Scope, Tier, ints, n, t};
use crate::{Dims, Error, Meta, Result, Tensor, dispatch, samples};

/// Reorders dimensions: output dimension `i` is input dimension `self.0[i]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Permute(pub Dims);

impl Permute {
    fn inverse(&self) -> Dims {
        let mut inv = Dims::filled(0, self.0.len());
        for (i, &d) in self.0.iter().enumerate() {
            inv[d] = i;
        }
        inv
    }
}

impl ViewOp for Permute {
    const NAME: &'static str = "permute";
    fn layout(&self, x: &Layout) -> Result<Layout> {
        let pick = |d: &Dims| self.0.iter().map(|&i| d[i]).collect();
        Ok(Layout { dims: pick(&x.dims), strides: pick(&x.strides), offset: x.offset })
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
    fn layout(&self, x: &Layout) -> Result<Layout> {
        let shift = self.0.len() - x.dims.len();
        let mut strides = Dims::filled(0, self.0.len());
        for i in 0..x.dims.len() {
            if x.dims[i] == self.0[shift + i] {
                strides[shift + i] = x.strides[i];
            }
        }
        Ok(Layout { dims: self.0, strides, offset: x.offset })
    }
    fn lower(&self, f: &mut Func, x: &Value, _: &Meta) -> Value {
        f.broadcast_to(x, &self.0)
    }
    fn vjp(&self, x: &Meta, g: &Tensor) -> Result<Tensor> {
        g.sum_to(&x.dims)
    }
    fn write_back(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        // In-place writes to repeated elements are refused before; here every element has one place.
        y.view_dims(*x.dims())
    }
}

/// Takes `start..end` by `step` of one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slice {
    /// Which dimension.
    pub dim: usize,
    /// First index.
    pub start: usize,
    /// Number of elements taken.
    pub len: usize,
    /// Distance between them.
    pub step: usize,
}

impl ViewOp for Slice {
    const NAME: &'static str = "slice";
    fn layout(&self, x: &Layout) -> Result<Layout> {
        let mut l = *x;
        l.dims[self.dim] = self.len;
        l.strides[self.dim] = x.strides[self.dim] * self.step;
        // An empty slice at the end stays within the storage.
        l.offset += if self.len == 0 { 0 } else { self.start * x.strides[self.dim] };
        Ok(l)
    }
    fn lower(&self, f: &mut Func, x: &Value, _: &Meta) -> Value {
        let (mut start, mut limit, mut stride) = (vec![0; x.rank()], x.shape().to_vec(), vec![1; x.rank()]);
        start[self.dim] = self.start;
        stride[self.dim] = self.step;
        limit[self.dim] = if self.len == 0 { self.start } else { self.start + (self.len - 1) * self.step + 1 };
        f.slice(x, &start, &limit, &stride)
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

/// Strides of a view with other sizes, when elements need not move.
pub(crate) fn reshaped_strides(dims: &Dims, strides: &Dims, out: &Dims) -> Option<Dims> {
    if dims.numel() == 0 {
        return Some(if dims == out { *strides } else { out.contiguous_strides() });
    }
    // Runs of input dimensions that are contiguous among themselves are split into output dimensions, from the right.
    let mut r = Dims::filled(0, out.len());
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
    Some(r)
}

impl ViewOp for Reshape {
    const NAME: &'static str = "view";
    fn layout(&self, x: &Layout) -> Result<Layout> {
        match reshaped_strides(&x.dims, &x.strides, &self.0) {
            Some(strides) => Ok(Layout { dims: self.0, strides, offset: x.offset }),
            None => Err(Error::runtime(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
            )),
        }
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
    /// Index of the first element in the storage.
    pub offset: usize,
}

impl AsStrided {
    /// The same window counted from the first element of `x`, if `x` is contiguous and all of the window lies in it.
    pub(crate) fn within(&self, x: &Tensor) -> Option<AsStrided> {
        let last: usize = self.dims.iter().zip(&self.strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
        let offset = self.offset.checked_sub(x.storage_offset())?;
        (x.is_contiguous() && offset + last < x.numel()).then_some(AsStrided { offset, ..*self })
    }
    /// Flat positions of the window's elements, row major.
    fn positions(&self) -> Vec<i64> {
        let mut p = vec![self.offset as i64];
        for (&n, &s) in self.dims.iter().zip(&self.strides) {
            p = p.iter().flat_map(|&b| (0..n).map(move |i| b + (i * s) as i64)).collect();
        }
        p
    }
}

impl ViewOp for AsStrided {
    const NAME: &'static str = "as_strided";
    fn layout(&self, _: &Layout) -> Result<Layout> {
        Ok(Layout { dims: self.dims, strides: self.strides, offset: self.offset })
    }
    fn lower(&self, f: &mut Func, x: &Value, y: &Meta) -> Value {
        let flat = f.reshape(x, &[x.ty().numel()]);
        // Positions from iotas, so that the program does not grow with the window.
        let ty = |e| torchtpu_stablehlo::Type::new(&self.dims, e);
        let index = torchtpu_stablehlo::ElementType::S64;
        let mut at = f.splat_i64(self.offset as i64, &ty(index));
        for (d, &s) in self.strides.iter().enumerate() {
            let i = f.iota(&ty(index), d);
            let step = f.splat_i64(s as i64, &ty(index));
            let i = f.binary("stablehlo.multiply", &i, &step);
            at = f.binary("stablehlo.add", &at, &i);
        }
        let taken = f.take(&flat, &at, 0);
        f.reshape(&taken, &y.dims)
    }
    fn vjp(&self, x: &Meta, g: &Tensor) -> Result<Tensor> {
        let flat = Tensor::zeros_like_meta(&x.with_dims(Dims::new(&[x.numel()])))?;
        let at = Tensor::from_slice_on(&self.positions(), &[self.dims.numel()], x.device)?;
        super::indexing::index_add(&flat, 0, &at, &g.reshape_dims(Dims::new(&[self.dims.numel()]))?)?.view_dims(x.dims)
    }
    fn write_back(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let flat = x.reshape_dims(Dims::new(&[x.numel()]))?;
        let at = Tensor::from_slice_on(&self.positions(), &[self.dims.numel()], x.device())?;
        super::indexing::index_copy(&flat, 0, &at, &y.reshape_dims(Dims::new(&[self.dims.numel()]))?)?
            .view_dims(*x.dims())
    }
}

/// Sizes with at most one -1, made concrete.
///
/// # Errors
/// `Runtime`, in PyTorch's wording.
pub fn infer_size(sizes: &[i64], numel: usize) -> Result<Dims> {
    let mut unknown = None;
    let mut known: usize = 1;
    let mut dims = Dims::try_new(&vec![0; sizes.len()])?;
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
        Some(_) if known == 0 => Err(Error::runtime(format!(
            "cannot reshape tensor of 0 elements into shape {sizes:?} because the unspecified dimension size -1 can be any value and is ambiguous"
        ))),
        Some(i) if numel.is_multiple_of(known) => {
            dims[i] = numel / known;
            Ok(dims)
        }
        None if known == numel => Ok(dims),
        _ => Err(invalid()),
    }
}

impl Tensor {
    /// A view with these sizes.
    pub(crate) fn view_dims(&self, dims: Dims) -> Result<Tensor> {
        dispatch::call_view(Prim::Reshape(Reshape(dims)), self)
    }
    /// [`Tensor::reshape`] to sizes that are known to fit.
    pub(crate) fn reshape_dims(&self, dims: Dims) -> Result<Tensor> {
        if *self.dims() == dims {
            return Ok(self.clone());
        }
        if reshaped_strides(self.dims(), self.strides(), &dims).is_some() {
            return self.view_dims(dims);
        }
        self.contiguous()?.view_dims(dims)
    }
    /// A view with other sizes; at most one may be -1.
    ///
    /// # Errors
    /// `Runtime` when the number of elements differs or the strides do not allow it.
    pub fn view_as_sizes(&self, sizes: &[i64]) -> Result<Tensor> {
        self.view_dims(infer_size(sizes, self.numel())?)
    }
    /// The same elements with other sizes; a view where strides allow, else a copy.
    ///
    /// # Errors
    /// `Runtime` when the number of elements differs.
    pub fn reshape(&self, sizes: &[i64]) -> Result<Tensor> {
        let dims = infer_size(sizes, self.numel())?;
        if reshaped_strides(self.dims(), self.strides(), &dims).is_some() {
            return self.view_dims(dims);
        }
        self.contiguous()?.view_dims(dims)
    }
    /// Reorders dimensions.
    ///
    /// # Errors
    /// `Runtime` or `Index` when `order` is not a permutation.
    pub fn permute(&self, order: &[i64]) -> Result<Tensor> {
        let rank = self.dims().len();
        if order.len() != rank {
            return Err(Error::runtime(format!(
                "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {}",
                order.len()
            )));
        }
        let mut d = Dims::EMPTY;
        for &o in order {
            let i = normalize_dim(o, rank)?;
            if d.contains(&i) {
                return Err(Error::runtime("permute(): duplicate dims are not allowed."));
            }
            d.push(i);
        }
        dispatch::call_view(Prim::Permute(Permute(d)), self)
    }
    /// Swaps two dimensions.
    ///
    /// # Errors
    /// `Index` when one is out of range.
    pub fn transpose(&self, a: i64, b: i64) -> Result<Tensor> {
        let rank = self.dims().len();
        let (a, b) = (normalize_dim(a, rank)?, normalize_dim(b, rank)?);
        let mut d: Dims = (0..rank).collect();
        if rank > 0 {
            d.swap(a, b);
        }
        dispatch::call_view(Prim::Permute(Permute(d)), self)
    }
    /// Transposes a matrix; vectors and numbers stay.
    ///
    /// # Errors
    /// `Runtime` with more than two dimensions.
    pub fn t(&self) -> Result<Tensor> {
        match self.dims().len() {
            0 | 1 => dispatch::call_view(Prim::Permute(Permute((0..self.dims().len()).collect())), self),
            2 => self.transpose(0, 1),
            n => Err(Error::runtime(format!("t() expects a tensor with <= 2 dimensions, but self is {n}D"))),
        }
    }
    /// Repeats dimensions of size one; -1 keeps a size.
    ///
    /// # Errors
    /// `Runtime` when a size cannot be expanded.
    pub fn expand(&self, sizes: &[i64]) -> Result<Tensor> {
        let d = self.dims();
        if sizes.len() < d.len() {
            return Err(Error::runtime(format!(
                "expand(torch.{}Tensor{{{}}}, size={sizes:?}): the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
                self.dtype().scalar_type(),
                d,
                sizes.len(),
                d.len()
            )));
        }
        let shift = sizes.len() - d.len();
        let mut out = Dims::try_new(&vec![0; sizes.len()])?;
        for (i, &s) in sizes.iter().enumerate() {
            let old = (i >= shift).then(|| d[i - shift]);
            out[i] = match (s, old) {
                (-1, Some(o)) => o,
                (-1, None) => {
                    return Err(Error::runtime(format!(
                        "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
                    )));
                }
                (s, Some(o)) if s >= 0 && (o == s as usize || o == 1) => s as usize,
                (s, None) if s >= 0 => s as usize,
                (s, o) => {
                    return Err(Error::runtime(format!(
                        "The expanded size of the tensor ({s}) must match the existing size ({}) at non-singleton dimension {i}.  Target sizes: {sizes:?}.  Tensor sizes: {d}",
                        o.unwrap_or(0)
                    )));
                }
            };
        }
        dispatch::call_view(Prim::Expand(Expand(out)), self)
    }
    /// Expands to sizes that are known to be a broadcast of this tensor's.
    pub(crate) fn expand_dims(&self, dims: &Dims) -> Result<Tensor> {
        if self.dims() == dims {
            return Ok(self.clone());
        }
        dispatch::call_view(Prim::Expand(Expand(*dims)), self)
    }
    /// `x[.., start:end:step, ..]` along one dimension; bounds are clipped as Python does.
    ///
    /// # Errors
    /// `Value` when the step is not positive, `Index` for a wrong dimension.
    pub fn slice(&self, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
        if self.dims().is_empty() {
            return Err(Error::index("slice() cannot be applied to a 0-dim tensor."));
        }
        let dim = normalize_dim(dim, self.dims().len())?;
        if step <= 0 {
            return Err(Error::runtime("slice step must be positive"));
        }
        let size = self.dims()[dim] as i64;
        let clip = |v: i64| if v < 0 { (v + size).max(0) } else { v.min(size) };
        let start = clip(start.unwrap_or(0));
        let end = clip(end.unwrap_or(i64::MAX)).max(start);
        let len = (end - start + step - 1) / step;
        let op = Slice { dim, start: start as usize, len: len as usize, step: step as usize };
        dispatch::call_view(Prim::Slice(op), self)
    }
    /// `length` elements of one dimension from `start` on.
    ///
    /// # Errors
    /// `Runtime` or `Index` when they do not lie within the dimension.
    pub fn narrow(&self, dim: i64, start: i64, length: i64) -> Result<Tensor> {
        if self.dims().is_empty() {
            return Err(Error::runtime("narrow() cannot be applied to a 0-dim tensor."));
        }
        let d = normalize_dim(dim, self.dims().len())?;
        let size = self.dims()[d] as i64;
        if length < 0 {
            return Err(Error::runtime("narrow(): length must be non-negative."));
        }
        if start < -size || start > size {
            return Err(Error::index(format!(
                "Dimension out of range (expected to be in range of [{}, {size}], but got {start})",
                -size
            )));
        }
        let from = if start < 0 { start + size } else { start };
        if from + length > size {
            return Err(Error::runtime(format!("start ({from}) + length ({length}) exceeds dimension size ({size}).")));
        }
        let op = Slice { dim: d, start: from as usize, len: length as usize, step: 1 };
        dispatch::call_view(Prim::Slice(op), self)
    }
    /// One index of a dimension, which goes away.
    ///
    /// # Errors
    /// `Index` when out of range.
    pub fn select(&self, dim: i64, index: i64) -> Result<Tensor> {
        if self.dims().is_empty() {
            return Err(Error::index("select() cannot be applied to a 0-dim tensor."));
        }
        let d = normalize_dim(dim, self.dims().len())?;
        let size = self.dims()[d] as i64;
        if index < -size || index >= size {
            return Err(Error::index(format!(
                "select(): index {index} out of range for tensor of size {} at dimension {d}",
                self.dims()
            )));
        }
        let start = if index < 0 { index + size } else { index } as usize;
        let one = dispatch::call_view(Prim::Slice(Slice { dim: d, start, len: 1, step: 1 }), self)?;
        let mut dims = *one.dims();
        dims.remove(d);
        one.view_dims(dims)
    }
    /// Removes a dimension when its size is one.
    ///
    /// # Errors
    /// `Index` when out of range.
    pub fn squeeze(&self, dim: i64) -> Result<Tensor> {
        let d = normalize_dim(dim, self.dims().len())?;
        let mut dims = *self.dims();
        if !dims.is_empty() && dims[d] == 1 {
            dims.remove(d);
        }
        self.view_dims(dims)
    }
    /// Removes all dimensions of size one.
    ///
    /// # Errors
    /// None in practice.
    pub fn squeeze_all(&self) -> Result<Tensor> {
        self.view_dims(self.dims().iter().copied().filter(|&n| n != 1).collect())
    }
    /// Inserts a dimension of size one.
    ///
    /// # Errors
    /// `Index` when out of range.
    pub fn unsqueeze(&self, dim: i64) -> Result<Tensor> {
        let d = normalize_dim(dim, self.dims().len() + 1)?;
        let mut dims = Dims::try_new(self.dims())?;
        if dims.len() == crate::dims::MAX_DIMS {
            Dims::try_new(&[0; crate::dims::MAX_DIMS + 1])?;
        }
        dims.insert(d, 1);
        self.view_dims(dims)
    }
    /// Merges dimensions `start` to `end`, inclusive.
    ///
    /// # Errors
    /// `Index` or `Runtime` when the range is wrong.
    pub fn flatten(&self, start: i64, end: i64) -> Result<Tensor> {
        let rank = self.dims().len();
        if rank == 0 {
            return self.reshape(&[1]);
        }
        let (a, b) = (normalize_dim(start, rank)?, normalize_dim(end, rank)?);
        if a > b {
            return Err(Error::runtime("flatten() has invalid args: start_dim cannot come after end_dim"));
        }
        let mut dims: Dims = self.dims()[..a].iter().copied().collect();
        dims.push(self.dims()[a..=b].iter().product());
        self.dims()[b + 1..].iter().for_each(|&n| dims.push(n));
        self.reshape_dims(dims)
    }
    /// Splits one dimension.
    ///
    /// # Errors
    /// `Runtime` when the sizes do not multiply to the dimension's.
    pub fn unflatten(&self, dim: i64, sizes: &[i64]) -> Result<Tensor> {
        let d = normalize_dim(dim, self.dims().len())?;
        if sizes.is_empty() {
            return Err(Error::runtime("unflatten: sizes must be non-empty"));
        }
        let inner = infer_size(sizes, self.dims()[d]).map_err(|_| {
            Error::runtime(format!(
                "unflatten: Provided sizes {sizes:?} don't multiply up to the size of dim {d} ({}) in the input tensor",
                self.dims()[d]
            ))
        })?;
        let all: Vec<usize> = self.dims()[..d].iter().chain(&inner).chain(&self.dims()[d + 1..]).copied().collect();
        self.view_dims(Dims::try_new(&all)?)
    }
    /// Moves dimensions to new positions.
    ///
    /// # Errors
    /// `Runtime` or `Index` when the lists do not match.
    pub fn movedim(&self, source: &[i64], destination: &[i64]) -> Result<Tensor> {
        let rank = self.dims().len();
        if source.len() != destination.len() {
            return Err(Error::runtime(format!(
                "movedim: Invalid source or destination dims: source ({source:?} dims) should contain the same number of dims as destination ({destination:?} dims)"
            )));
        }
        let norm = |v: &[i64], what: &str| -> Result<Vec<usize>> {
            let d: Vec<usize> = v.iter().map(|&d| normalize_dim(d, rank)).collect::<Result<_>>()?;
            let mut sorted = d.clone();
            sorted.sort_unstable();
            sorted.dedup();
            if sorted.len() != d.len() {
                return Err(Error::runtime(format!("movedim: repeated dim in `{what}` ({v:?})")));
            }
            Ok(d)
        };
        let (s, d) = (norm(source, "source")?, norm(destination, "destination")?);
        let mut order = vec![usize::MAX; rank];
        for (a, b) in s.iter().zip(&d) {
            order[*b] = *a;
        }
        let mut rest = (0..rank).filter(|i| !s.contains(i));
        for o in order.iter_mut().filter(|o| **o == usize::MAX) {
            *o = rest.next().expect("as many free places as dimensions left");
        }
        dispatch::call_view(Prim::Permute(Permute(Dims::new(&order))), self)
    }
    /// A window on the storage with any sizes, strides and offset.
    ///
    /// # Errors
    /// `Runtime` when it reaches beyond the storage.
    pub fn as_strided(&self, sizes: &[i64], strides: &[i64], offset: Option<i64>) -> Result<Tensor> {
        if sizes.len() != strides.len() {
            return Err(Error::runtime(format!(
                "mismatch in length of strides and shape: got {} sizes and {} strides",
                sizes.len(),
                strides.len()
            )));
        }
        let whole = |v: &[i64], what: &str| -> Result<Dims> {
            if v.iter().any(|&x| x < 0) {
                return Err(Error::runtime(format!(
                    "as_strided: Negative {what} are not supported at the moment, got {what}: {v:?}"
                )));
            }
            Dims::try_new(&v.iter().map(|&x| x as usize).collect::<Vec<_>>())
        };
        let offset = offset.unwrap_or(self.storage_offset() as i64);
        if offset < 0 {
            return Err(Error::runtime(format!("Tensor: invalid storage offset {offset}")));
        }
        let op =
            AsStrided { dims: whole(sizes, "sizes")?, strides: whole(strides, "strides")?, offset: offset as usize };
        dispatch::call_view(Prim::AsStrided(Box::new(op)), self)
    }
    /// The diagonal of two dimensions, as the last dimension of a view.
    ///
    /// # Errors
    /// `Runtime` or `Index` for wrong dimensions.
    pub fn diagonal(&self, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
        let rank = self.dims().len();
        let (a, b) = (normalize_dim(dim1, rank)?, normalize_dim(dim2, rank)?);
        if a == b {
            return Err(Error::runtime(format!("diagonal dimensions cannot be identical {dim1}, {dim2}")));
        }
        let (rows, cols) = (self.dims()[a] as i64, self.dims()[b] as i64);
        let len = if offset >= 0 { rows.min(cols - offset) } else { (rows + offset).min(cols) }.max(0);
        // Cut the rows and columns that the diagonal meets, then step through both at once.
        let (r0, c0) = if len == 0 { (0, 0) } else { ((-offset).max(0), offset.max(0)) };
        let x = self.narrow(a as i64, r0, len)?.narrow(b as i64, c0, len)?;
        let mut order: Vec<i64> = (0..rank as i64).filter(|&d| d != a as i64 && d != b as i64).collect();
        order.extend([a as i64, b as i64]);
        let x = x.permute(&order)?;
        let mut flat: Vec<i64> = x.dims()[..rank - 2].iter().map(|&n| n as i64).collect();
        flat.push(len * len);
        if len == 0 {
            flat[rank - 2] = 0;
            return x.reshape(&flat);
        }
        let (outer, s) = (&x.dims()[..rank - 2], x.strides());
        let sizes: Vec<i64> = outer.iter().map(|&n| n as i64).chain([len]).collect();
        let strides: Vec<i64> =
            s[..rank - 2].iter().map(|&n| n as i64).chain([(s[rank - 2] + s[rank - 1]) as i64]).collect();
        x.as_strided(&sizes, &strides, Some(x.storage_offset() as i64))
    }
    /// Windows of `size` along a dimension, `step` apart, as a new last dimension of a view.
    ///
    /// # Errors
    /// `Runtime` or `Index` when they do not fit.
    pub fn unfold(&self, dim: i64, size: i64, step: i64) -> Result<Tensor> {
        let rank = self.dims().len();
        let d = normalize_dim(dim, rank)?;
        let n = if rank == 0 { 1 } else { self.dims()[d] as i64 };
        if size < 0 || size > n {
            return Err(Error::runtime(format!("maximum size for tensor at dimension {d} is {n} but size is {size}")));
        }
        if step <= 0 {
            return Err(Error::runtime(format!("step is {step} but must be > 0")));
        }
        let mut sizes: Vec<i64> = self.dims().iter().map(|&n| n as i64).collect();
        let mut strides: Vec<i64> = self.strides().iter().map(|&n| n as i64).collect();
        let s = strides.get(d).copied().unwrap_or(1);
        if rank > 0 {
            sizes[d] = (n - size) / step + 1;
            strides[d] = s * step;
        }
        sizes.push(size);
        strides.push(s);
        self.as_strided(&sizes, &strides, None)
    }
    /// Parts of at most `size` along a dimension.
    ///
    /// # Errors
    /// `Runtime` or `Index` for wrong arguments.
    pub fn split(&self, size: i64, dim: i64) -> Result<Vec<Tensor>> {
        if self.dims().is_empty() {
            return Err(Error::runtime("split expects at least a 1-dimensional tensor"));
        }
        let d = normalize_dim(dim, self.dims().len())?;
        let n = self.dims()[d] as i64;
        if size < 0 {
            return Err(Error::runtime(format!("split expects split_size be non-negative, but got split_size={size}")));
        }
        if size == 0 && n != 0 {
            return Err(Error::runtime(format!(
                "split_size can only be 0 if dimension size is 0, but got dimension size of {n}"
            )));
        }
        let parts = if size == 0 { 1 } else { ((n + size - 1) / size).max(1) };
        (0..parts).map(|i| self.narrow(d as i64, i * size, size.min(n - i * size))).collect()
    }
    /// Parts of given sizes along a dimension.
    ///
    /// # Errors
    /// `Runtime` or `Index` when they do not add up.
    pub fn split_sizes(&self, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
        if self.dims().is_empty() {
            return Err(Error::runtime("split_with_sizes expects at least a 1-dimensional tensor"));
        }
        let d = normalize_dim(dim, self.dims().len())?;
        let n = self.dims()[d] as i64;
        if sizes.iter().any(|&s| s < 0) {
            return Err(Error::runtime(format!(
                "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes:?}"
            )));
        }
        if sizes.iter().sum::<i64>() != n {
            return Err(Error::runtime(format!(
                "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {d}), but got split_sizes={sizes:?}"
            )));
        }
        let mut at = 0;
        sizes
            .iter()
            .map(|&s| {
                at += s;
                self.narrow(d as i64, at - s, s)
            })
            .collect()
    }
    /// About `chunks` parts of equal size.
    ///
    /// # Errors
    /// `Runtime` or `Index` for wrong arguments.
    pub fn chunk(&self, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
        if self.dims().is_empty() {
            return Err(Error::runtime("chunk expects at least a 1-dimensional tensor"));
        }
        if chunks <= 0 {
            return Err(Error::runtime(format!("chunk expects `chunks` to be greater than 0, got: {chunks}")));
        }
        let d = normalize_dim(dim, self.dims().len())?;
        let n = self.dims()[d] as i64;
        let size = (n + chunks - 1) / chunks;
        if size == 0 {
            let mut sizes = vec![0; chunks as usize];
            sizes[0] = n;
            return self.split_sizes(&sizes, dim);
        }
        self.split(size, dim)
    }
    /// One tensor an index of a dimension.
    ///
    /// # Errors
    /// `Index` for a wrong dimension.
    pub fn unbind(&self, dim: i64) -> Result<Vec<Tensor>> {
        let d = normalize_dim(dim, self.dims().len())?;
        if self.dims().is_empty() {
            return Err(Error::index("Dimension specified as 0 but tensor has no dimensions"));
        }
        (0..self.dims()[d]).map(|i| self.select(d as i64, i as i64)).collect()
    }
    /// Sums a broadcast gradient back to the sizes it was broadcast from.
    pub(crate) fn sum_to(&self, dims: &Dims) -> Result<Tensor> {
        if self.dims() == dims {
            return Ok(self.clone());
        }
        let shift = self.dims().len() - dims.len();
        let mut mask = (1u64 << shift) - 1;
        for (i, &n) in dims.iter().enumerate() {
            if n == 1 && self.dims()[shift + i] != 1 {
                mask |= 1 << (shift + i);
            }
        }
        super::reduce::sum_mask(self, mask)?.reshape_dims(*dims)
    }
}

fn views(x: Result<Vec<Tensor>>) -> Result<crate::schema::Ret> {
    Ok(crate::schema::Ret::Tuple(x?))
}

/// The value of a view, in memory of its own.
fn copied(y: Result<Tensor>) -> Result<crate::schema::Ret> {
    Ok(y?.copy()?.into())
}

fn copies(y: Result<Vec<Tensor>>) -> Result<crate::schema::Ret> {
    Ok(crate::schema::Ret::List(y?.iter().map(Tensor::copy).collect::<Result<_>>()?))
}

/// Rows of the views' copies.
pub const COPY_ROWS: &[Row] = &[
    Row::new(
        "diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.diagonal(a.int(1)?, a.int(2)?, a.int(3)?)),
        samples!([t(&[3, 4])]),
    )
    .scope(Scope::Function),
    Row::new(
        "unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.unfold(a.int(1)?, a.int(2)?, a.int(3)?)),
        samples!([t(&[7, 2]), n(0), n(3), n(2)]),
    )
    .scope(Scope::Function),
    Row::new(
        "narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.narrow(a.int(1)?, a.int(2)?, a.int(3)?)),
        samples!([t(&[4, 3]), n(0), n(1), n(2)]),
    ),
    Row::new(
        "permute_copy(Tensor self, int[] dims) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.permute(a.ints(1)?)),
        samples!([t(&[2, 3]), ints(&[1, 0])]),
    )
    .scope(Scope::Function),
    Row::new(
        "view_copy(Tensor self, SymInt[] size) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.view_as_sizes(a.ints(1)?)),
        samples!([t(&[2, 3]), ints(&[3, 2])]),
    )
    .scope(Scope::Function),
    Row::new(
        "expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.expand(a.ints(1)?)),
        samples!([t(&[1, 3]), ints(&[2, 3])]),
    )
    .scope(Scope::Function),
    Row::new(
        "transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.transpose(a.int(1)?, a.int(2)?)),
        samples!([t(&[2, 3]), n(0), n(1)]),
    )
    .scope(Scope::Function),
    Row::new("t_copy(Tensor self) -> Tensor", Tier::Composed, |a| copied(a.tensor(0)?.t()), samples!([t(&[2, 3])]))
        .scope(Scope::Function),
    Row::new(
        "alias_copy(Tensor self) -> Tensor",
        Tier::Composed,
        |a| copied(Ok(a.tensor(0)?.clone())),
        samples!([t(&[2, 3])]),
    )
    .scope(Scope::Function),
    Row::new(
        "squeeze_copy(Tensor self) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.squeeze_all()),
        samples!([t(&[1, 3, 1])]),
    )
    .scope(Scope::Function),
    Row::new(
        "squeeze_copy.dim(Tensor self, int dim) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.squeeze(a.int(1)?)),
        samples!([t(&[1, 3, 1]), n(0)]),
    )
    .scope(Scope::Function),
    Row::new(
        "unsqueeze_copy(Tensor self, int dim) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.unsqueeze(a.int(1)?)),
        samples!([t(&[3]), n(0)]),
    )
    .scope(Scope::Function),
    Row::new(
        "as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.as_strided(a.ints(1)?, a.ints(2)?, a.opt_int(3)?)),
        samples!([t(&[3, 4]), ints(&[2, 3]), ints(&[4, 1]), n(1)]),
    )
    .scope(Scope::Function),
    Row::new(
        "unbind_copy.int(Tensor self, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| copies(a.tensor(0)?.unbind(a.int(1)?)),
        samples!([t(&[2, 3]), n(1)]),
    )
    .scope(Scope::Function),
    Row::new(
        "split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| copies(a.tensor(0)?.split_sizes(a.ints(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), ints(&[2, 3])]),
    )
    .scope(Scope::Function),
    Row::new(
        "split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| copies(a.tensor(0)?.split(a.int(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), n(2)]),
    )
    .scope(Scope::Function),
    Row::new(
        "slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.slice(a.int(1)?, a.opt_int(2)?, a.opt_int(3)?, a.int(4)?)),
        samples!([t(&[5, 3]), n(0), n(1), n(5), n(2)]),
    )
    .scope(Scope::Function),
    Row::new(
        "select_copy.int(Tensor self, int dim, SymInt index) -> Tensor",
        Tier::Composed,
        |a| copied(a.tensor(0)?.select(a.int(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), n(1), n(-1)]),
    )
    .scope(Scope::Function),
    Row::new(
        "detach_copy(Tensor self) -> Tensor",
        Tier::Composed,
        |a| copied(Ok(a.tensor(0)?.detach())),
        || vec![Sample::new(vec![t(&[2, 3])]).no_gradient()],
    )
    .scope(Scope::Function),
    Row::new(
        "unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.split_sizes(a.ints(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), ints(&[2, 3])]),
    )
    .no_out(),
    Row::new(
        "unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.chunk(a.int(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), n(2)]),
    )
    .no_out(),
    Row::new(
        "unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.split(a.int(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), n(2)]),
    )
    .no_out(),
];

/// Rows of the views.
pub const ROWS: &[Row] = &[
    Row::new(
        "view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.view_as_sizes(a.ints(1)?)?.into()),
        samples!([t(&[2, 6]), ints(&[3, -1])], [t(&[2, 3]), ints(&[6])]),
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.reshape(a.ints(1)?)?.into()),
        samples!(
            [t(&[2, 6]), ints(&[3, -1])],
            [crate::schema::SampleArg::Transposed(vec![2, 3], crate::schema::Fill::Normal), ints(&[6])]
        ),
    )
    .no_out(),
    Row::new(
        "view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.view_dims(*a.tensor(1)?.dims())?.into()),
        || vec![Sample::new(vec![t(&[2, 3]), t(&[6])])],
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)",
        Tier::Composed,
        |a| {
            let d: Vec<i64> = a.tensor(1)?.dims().iter().map(|&n| n as i64).collect();
            Ok(a.tensor(0)?.reshape(&d)?.into())
        },
        || vec![Sample::new(vec![t(&[2, 3]), t(&[6])])],
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "permute(Tensor(a) self, int[] dims) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.permute(a.ints(1)?)?.into()),
        samples!([t(&[2, 3, 4]), ints(&[2, 0, 1])]),
    )
    .no_out(),
    Row::new(
        "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.transpose(a.int(1)?, a.int(2)?)?.into()),
        samples!([t(&[2, 3, 4]), n(0), n(-1)]),
    )
    .no_out(),
    Row::new(
        "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.transpose(a.int(1)?, a.int(2)?)?.into()),
        samples!([t(&[2, 3, 4]), n(0), n(-1)]),
    )
    .no_out(),
    Row::new(
        "swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.transpose(a.int(1)?, a.int(2)?)?.into()),
        samples!([t(&[2, 3, 4]), n(0), n(-1)]),
    )
    .no_out(),
    Row::new("t(Tensor(a) self) -> Tensor(a)", Tier::Prim, |a| Ok(a.tensor(0)?.t()?.into()), samples!([t(&[2, 3])]))
        .no_out(),
    Row::new(
        "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.expand(a.ints(1)?)?.into()),
        samples!([t(&[2, 1]), ints(&[4, -1, 3])]),
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
        Tier::Composed,
        |a| {
            let d: Vec<i64> = a.tensor(1)?.dims().iter().map(|&n| n as i64).collect();
            Ok(a.tensor(0)?.expand(&d)?.into())
        },
        || vec![Sample::new(vec![t(&[3]), t(&[2, 3])])],
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.expand(a.ints(1)?)?.into()),
        samples!([t(&[2, 1]), ints(&[4, 2, 3])]),
    )
    .no_out(),
    Row::new(
        "narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.narrow(a.int(1)?, a.int(2)?, a.int(3)?)?.into()),
        samples!([t(&[5, 3]), n(0), n(1), n(3)]),
    )
    .no_out(),
    Row::new(
        "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.select(a.int(1)?, a.int(2)?)?.into()),
        samples!([t(&[5, 3]), n(0), n(-2)], [t(&[5, 3]), n(1), n(1)]),
    )
    .no_out(),
    Row::new(
        "squeeze(Tensor(a) self) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.squeeze_all()?.into()),
        samples!([t(&[1, 3, 1])]),
    )
    .no_out(),
    Row::new(
        "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.squeeze(a.int(1)?)?.into()),
        samples!([t(&[1, 3, 1]), n(0)], [t(&[1, 3, 1]), n(1)]),
    )
    .no_out(),
    Row::new(
        "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
        Tier::Prim,
        |a| {
            let x = a.tensor(0)?;
            let mask = if a.ints(1)?.is_empty() { 0 } else { crate::op::normalize_dims(a.ints(1)?, x.dims().len())? };
            let kept = x
                .dims()
                .iter()
                .enumerate()
                .filter(|(i, n)| !(mask >> i & 1 != 0 && **n == 1))
                .map(|(_, n)| *n)
                .collect();
            Ok(x.view_dims(kept)?.into())
        },
        samples!([t(&[1, 3, 1]), ints(&[0, 1])]),
    )
    .no_out(),
    Row::new(
        "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.unsqueeze(a.int(1)?)?.into()),
        samples!([t(&[2, 3]), n(1)], [t(&[]), n(-1)]),
    )
    .no_out(),
    Row::new(
        "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.flatten(a.int(1)?, a.int(2)?)?.into()),
        samples!([t(&[2, 3, 4]), n(1)], [t(&[])]),
    )
    .no_out(),
    Row::new(
        "ravel(Tensor(a) self) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.reshape(&[-1])?.into()),
        samples!([t(&[2, 3])]),
    )
    .no_out(),
    Row::new(
        "unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.unflatten(a.int(1)?, a.ints(2)?)?.into()),
        samples!([t(&[2, 6]), n(1), ints(&[2, -1])]),
    )
    .no_out(),
    Row::new(
        "movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.movedim(a.ints(1)?, a.ints(2)?)?.into()),
        samples!([t(&[2, 3, 4]), ints(&[0, 1]), ints(&[2, 0])]),
    )
    .no_out(),
    Row::new(
        "movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.movedim(&[a.int(1)?], &[a.int(2)?])?.into()),
        samples!([t(&[2, 3, 4]), n(0), n(2)]),
    )
    .no_out(),
    Row::new(
        "moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.movedim(a.ints(1)?, a.ints(2)?)?.into()),
        samples!([t(&[2, 3, 4]), ints(&[0, 1]), ints(&[2, 0])]),
    )
    .no_out(),
    Row::new(
        "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.slice(a.int(1)?, a.opt_int(2)?, a.opt_int(3)?, a.int(4)?)?.into()),
        samples!([t(&[5, 3]), n(0), n(1), n(-1), n(2)], [t(&[5, 3]), n(1), n(3), n(9)], [t(&[2, 3])]),
    )
    .no_out()
    .scope(Scope::Aten),
    Row::new(
        "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.as_strided(a.ints(1)?, a.ints(2)?, a.opt_int(3)?)?.into()),
        samples!([t(&[3, 4]), ints(&[2, 3]), ints(&[4, 1]), n(1)], [t(&[6]), ints(&[3, 2]), ints(&[1, 1])]),
    )
    .no_out(),
    Row::new(
        "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.diagonal(a.int(1)?, a.int(2)?, a.int(3)?)?.into()),
        samples!([t(&[3, 4])], [t(&[2, 3, 4]), n(1), n(1), n(2)], [t(&[4, 3]), n(-1)]),
    )
    .no_out(),
    Row::new(
        "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
        Tier::Composed,
        |a| Ok(a.tensor(0)?.unfold(a.int(1)?, a.int(2)?, a.int(3)?)?.into()),
        samples!([t(&[7, 2]), n(0), n(3), n(2)]),
    )
    .scope(Scope::Method)
    .no_out(),
    Row::new(
        "split.Tensor(Tensor(a) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.split(a.int(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), n(2)]),
    )
    .no_out(),
    Row::new(
        "split.sizes(Tensor(a) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.split_sizes(a.ints(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), ints(&[2, 3])]),
    )
    .no_out(),
    Row::new(
        "split_with_sizes(Tensor(a) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.split_sizes(a.ints(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), ints(&[2, 3])]),
    )
    .no_out(),
    Row::new(
        "chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.chunk(a.int(1)?, a.int(2)?)),
        samples!([t(&[5, 3]), n(2)]),
    )
    .no_out(),
    Row::new(
        "unbind.int(Tensor(a) self, int dim=0) -> Tensor(a)[]",
        Tier::Composed,
        |a| views(a.tensor(0)?.unbind(a.int(1)?)),
        samples!([t(&[2, 3]), n(1)]),
    )
    .no_out(),
    Row::new(
        "alias(Tensor(a) self) -> Tensor(a)",
        Tier::Prim,
        |a| Ok(a.tensor(0)?.view_dims(*a.tensor(0)?.dims())?.into()),
        samples!([t(&[2, 3])]),
    )
    .scope(Scope::Nn)
    .no_out(),
];
