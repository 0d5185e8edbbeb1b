//! Views, as methods of a tensor.

use super::{AsStrided, Expand, Permute, Reshape, Slice, infer_size, reshaped_strides};
use crate::op::{Prim, all_dims, normalize_dim};
use crate::{Dims, Error, Result, Tensor, backend, dispatch};
use smallvec::{SmallVec, smallvec};

/// A view without dimension `d`. Remaining dimensions of size one, which may have any stride, keep theirs.
fn without(y: Tensor, strides: &Dims, d: usize) -> Result<Tensor> {
    if !y.dims().contains(&1) {
        return Ok(y);
    }
    let mut strides = *strides;
    strides.remove(d);
    Ok(if *y.strides() == strides { y } else { y.with_strides(strides) })
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
        self.moved_to(dims)
    }
    /// A copy with other sizes. Callers see no view, though it is a view of the copy.
    fn moved_to(&self, dims: Dims) -> Result<Tensor> {
        let y = self.contiguous()?.view_dims(dims)?;
        if let Some(v) = y.view_info() {
            v.hide();
        }
        Ok(y)
    }
    /// A view with other sizes; at most one may be -1.
    ///
    /// # Errors
    /// `Runtime` when the number of elements differs or the strides do not allow it.
    pub fn view_as_sizes(&self, sizes: &[i64]) -> Result<Tensor> {
        self.view_dims(infer_size(sizes, self.numel())?)
    }
    /// The same elements with other sizes: a view if strides allow it, else a copy.
    ///
    /// # Errors
    /// `Runtime` when the number of elements differs.
    pub fn reshape(&self, sizes: &[i64]) -> Result<Tensor> {
        let dims = infer_size(sizes, self.numel())?;
        if reshaped_strides(self.dims(), self.strides(), &dims).is_some() {
            return self.view_dims(dims);
        }
        self.moved_to(dims)
    }
    /// Reorder dimensions.
    ///
    /// # Errors
    /// `Runtime` or `Index` when `order` is not a permutation.
    pub fn permute(&self, order: &[i64]) -> Result<Tensor> {
        let rank = self.dims().len();
        if order.len() != rank {
            return Err(Error::runtime(format!(
                "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the \
                desired ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {}",
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
    /// Swap two dimensions.
    ///
    /// # Errors
    /// `Index` when one is out of range.
    pub fn transpose(&self, a: i64, b: i64) -> Result<Tensor> {
        let rank = self.dims().len();
        let (a, b) = (normalize_dim(a, rank)?, normalize_dim(b, rank)?);
        let mut d: Dims = (0..rank).collect();
        if rank > 0 {
            d.edit(|d| d.swap(a, b));
        }
        dispatch::call_view(Prim::Permute(Permute(d)), self)
    }
    /// Transpose a matrix. Vectors and 0-d tensors stay as they are.
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
    /// Repeat dimensions of size one; -1 keeps a size.
    ///
    /// # Errors
    /// `Runtime` when a size cannot be expanded.
    pub fn expand(&self, sizes: &[i64]) -> Result<Tensor> {
        let d = self.dims();
        if sizes.len() < d.len() {
            return Err(Error::runtime(format!(
                "expand(torch.{}Tensor{{{}}}, size={sizes:?}): the number of sizes provided ({}) must be greater or \
                equal to the number of dimensions in the tensor ({})",
                self.dtype().scalar_type(),
                d,
                sizes.len(),
                d.len()
            )));
        }
        let shift = sizes.len() - d.len();
        Dims::check_rank(sizes.len())?;
        let mut out: SmallVec<[usize; 8]> = smallvec![0; sizes.len()];
        for (i, &s) in sizes.iter().enumerate().rev() {
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
                        "The expanded size of the tensor ({s}) must match the existing size ({}) at non-singleton \
                        dimension {i}.  Target sizes: {sizes:?}.  Tensor sizes: {d}",
                        o.unwrap_or(0)
                    )));
                }
            };
        }
        dispatch::call_view(Prim::Expand(Expand(Dims::new(&out))), self)
    }
    /// Expand to sizes that are known to be a broadcast of this tensor's.
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
        // Computed without `end - start + step`, which may overflow.
        let len = (end - start) / step + i64::from((end - start) % step != 0);
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
                "start out of range (expected to be in range of [{}, {size}], but got {start})",
                -size
            )));
        }
        let from = if start < 0 { start + size } else { start };
        if length > size - from {
            return Err(Error::runtime(format!("start ({from}) + length ({length}) exceeds dimension size ({size}).")));
        }
        let op = Slice { dim: d, start: from as usize, len: length as usize, step: 1 };
        dispatch::call_view(Prim::Slice(op), self)
    }
    /// One index of a dimension, which is removed.
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
        without(one.view_dims(dims)?, one.strides(), d)
    }
    /// Remove a dimension if its size is one.
    ///
    /// # Errors
    /// `Index` when out of range.
    pub fn squeeze(&self, dim: i64) -> Result<Tensor> {
        let d = normalize_dim(dim, self.dims().len())?;
        let mut dims = *self.dims();
        if dims.is_empty() || dims[d] != 1 {
            return self.view_dims(dims);
        }
        dims.remove(d);
        without(self.view_dims(dims)?, self.strides(), d)
    }
    /// Remove all dimensions of size one.
    ///
    /// # Errors
    /// It never fails in practice.
    pub fn squeeze_all(&self) -> Result<Tensor> {
        self.view_dims(self.dims().iter().copied().filter(|&n| n != 1).collect())
    }
    /// Insert a dimension of size one.
    ///
    /// # Errors
    /// `Index` when out of range.
    pub fn unsqueeze(&self, dim: i64) -> Result<Tensor> {
        let d = normalize_dim(dim, self.dims().len() + 1)?;
        Dims::check_rank(self.dims().len() + 1)?;
        let mut dims = *self.dims();
        dims.insert(d, 1);
        let y = self.view_dims(dims)?;
        if self.is_plain() {
            return Ok(y);
        }
        let mut strides = *self.strides();
        strides.insert(d, self.dims().get(d).map_or(1, |n| n * self.strides()[d]));
        Ok(if *y.strides() == strides { y } else { y.with_strides(strides) })
    }
    /// Merge dimensions `start` to `end`, inclusive.
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
    /// Split one dimension.
    ///
    /// # Errors
    /// `Runtime` when the sizes do not multiply to the dimension's.
    pub fn unflatten(&self, dim: i64, sizes: &[i64]) -> Result<Tensor> {
        let d = normalize_dim(dim, self.dims().len())?;
        if sizes.is_empty() {
            return Err(Error::runtime("unflatten: sizes must be non-empty"));
        }
        if self.dims().is_empty() {
            return Err(Error::runtime(format!(
                "unflatten got an unexpected error:\nDimension specified as {dim} but tensor has no dimensions"
            )));
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
    /// Move dimensions to new positions.
    ///
    /// # Errors
    /// `Runtime` or `Index` when the lists do not match.
    pub fn movedim(&self, source: &[i64], destination: &[i64]) -> Result<Tensor> {
        let rank = self.dims().len();
        if source.len() != destination.len() {
            return Err(Error::runtime(format!(
                "movedim: Invalid source or destination dims: source ({source:?} dims) should contain the same number \
                of dims as destination ({destination:?} dims)"
            )));
        }
        if rank == 0 {
            // A 0-d tensor has one dimension for this purpose.
            source.iter().chain(destination).try_for_each(|&d| normalize_dim(d, 0).map(|_| ()))?;
            return self.view_dims(Dims::EMPTY);
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
        let op = AsStrided {
            dims: whole(sizes, "sizes")?,
            strides: whole(strides, "strides")?,
            offset: offset as usize,
            own: false,
        };
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
        // Crop to the rows and columns that the diagonal meets, then step through both at once.
        let (r0, c0) = if len == 0 { (0, 0) } else { ((-offset).max(0), offset.max(0)) };
        let mut order: Vec<i64> = (0..rank as i64).filter(|&d| d != a as i64 && d != b as i64).collect();
        order.extend([a as i64, b as i64]);
        let x =
            backend::deferring_views(|| self.narrow(a as i64, r0, len)?.narrow(b as i64, c0, len)?.permute(&order))?;
        let mut flat: Vec<i64> = x.dims()[..rank - 2].iter().map(|&n| n as i64).collect();
        flat.push(len * len);
        if len == 0 {
            flat[rank - 2] = 0;
            return x.reshape(&flat);
        }
        let outer = &x.dims()[..rank - 2];
        let sizes: Vec<i64> = outer.iter().map(|&n| n as i64).chain([len]).collect();
        x.stepped(&sizes, |s| {
            s[..rank - 2].iter().map(|&n| n as i64).chain([(s[rank - 2] + s[rank - 1]) as i64]).collect()
        })
    }
    /// A window that begins at the first element. `steps` gives its strides from those of the tensor.
    fn stepped(&self, sizes: &[i64], steps: impl Fn(&[usize]) -> Vec<i64>) -> Result<Tensor> {
        if !dispatch::has_own_history(self) {
            return self.as_strided(sizes, &steps(self.strides()), None);
        }
        let unsigned = |v: &[i64]| Dims::try_new(&v.iter().map(|&n| n as usize).collect::<Vec<_>>());
        let strides = unsigned(&steps(&self.dims().contiguous_strides()))?;
        let op = AsStrided { dims: unsigned(sizes)?, strides, offset: 0, own: true };
        dispatch::call_view(Prim::AsStrided(Box::new(op)), self)
    }
    /// Windows of `size` along a dimension, at distance `step`, as a new last dimension of a view.
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
        if rank > 0 {
            sizes[d] = (n - size) / step + 1;
        }
        sizes.push(size);
        self.stepped(&sizes, |strides| {
            let mut strides: Vec<i64> = strides.iter().map(|&n| n as i64).collect();
            let s = strides.get(d).copied().unwrap_or(1);
            if rank > 0 {
                strides[d] = s.wrapping_mul(step);
            }
            strides.push(s);
            strides
        })
    }
    /// Sum a broadcast gradient back to the sizes it was broadcast from.
    pub(crate) fn sum_to(&self, dims: &Dims) -> Result<Tensor> {
        if self.dims() == dims {
            return Ok(self.clone());
        }
        let shift = self.dims().len() - dims.len();
        let mut mask = all_dims(shift);
        for (i, &n) in dims.iter().enumerate() {
            if n == 1 && self.dims()[shift + i] != 1 {
                mask |= 1 << (shift + i);
            }
        }
        crate::ops::reduce::sum_mask(self, mask)?.reshape_dims(*dims)
    }
}
