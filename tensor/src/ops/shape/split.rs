//! Splits of a tensor into views that together cover it.

use crate::graph::{BackwardFn, Edge, Node};
use crate::op::{Grads, normalize_dim};
use crate::ops::concat::cat;
use crate::view::Made;
use crate::{Error, GradRef, Meta, Result, Tensor, backend, state};
use smallvec::{SmallVec, smallvec};
use torchtpu_kernels::memory;

/// Joins the gradients of parts.
struct Parts {
    name: &'static str,
    /// The dimension along which the parts lie.
    dim: usize,
    /// Size of each part along it. `None` if each part is one index and has lost the dimension.
    sizes: Option<Vec<usize>>,
}

impl BackwardFn for Parts {
    fn name(&self) -> String {
        format!("{}Backward0", self.name)
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        let Some(like) = g.iter().flatten().next() else { return Ok(smallvec![None]) };
        let mut blocks: Vec<Tensor> = Vec::new();
        let mut at = 0;
        while at < g.len() {
            if let Some(g) = &g[at] {
                blocks.push(if self.sizes.is_none() { g.unsqueeze(self.dim as i64)? } else { g.clone() });
                at += 1;
                continue;
            }
            // Use one block of zeros for all unused parts up to the next used one.
            let missing = g[at..].iter().take_while(|g| g.is_none()).count();
            let mut dims = *like.dims();
            match &self.sizes {
                None => dims.insert(self.dim, missing),
                Some(sizes) => dims.set(self.dim, sizes[at..at + missing].iter().sum()),
            }
            blocks.push(Tensor::zeros_like_meta(&like.meta().with_dims(dims))?);
            at += missing;
        }
        Ok(smallvec![Some(cat(&blocks.iter().collect::<Vec<_>>(), self.dim as i64)?)])
    }
}

fn set_made(views: &[Tensor], made: Made) {
    views.iter().filter_map(Tensor::view_info).for_each(|v| v.set_made(made));
}

/// Views that may be changed in place although they share a node: `unsafe_split` and others.
pub(super) fn changeable(views: Vec<Tensor>) -> Vec<Tensor> {
    set_made(&views, Made::Ordinarily);
    views
}

/// A list of views of `x`. The user chooses its length.
pub(crate) fn collected(x: &Tensor, views: impl Iterator<Item = Result<Tensor>>) -> Result<Vec<Tensor>> {
    /// Bytes of a view: its block, the description of the view, and the object of a binding.
    const VIEW: usize = 1024;
    let n = views.size_hint().0;
    if n > 1 << 12 {
        memory::expect_room(n.saturating_mul(VIEW));
    }
    backend::taking_apart(x.place(), || {
        let mut all = memory::with_capacity(n);
        for view in views {
            memory::push(&mut all, view?);
        }
        Ok(all)
    })
}

impl Tensor {
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
        let parts = if size == 0 { 1 } else { (n as u64).div_ceil(size as u64).max(1) as i64 };
        self.taken_apart("Split", d, (0..parts).map(|i| (i * size, size.min(n - i * size))))
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
        if sizes.iter().try_fold(0i64, |sum, &s| sum.checked_add(s)) != Some(n) {
            return Err(Error::runtime(format!(
                "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {d}), \
                but got split_sizes={sizes:?}"
            )));
        }
        let mut at = 0;
        let part = |&s: &i64| {
            at += s;
            (at - s, s)
        };
        self.taken_apart("SplitWithSizes", d, sizes.iter().map(part))
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
        let size = (n as u64).div_ceil(chunks as u64) as i64;
        if size == 0 {
            let mut sizes = memory::filled(0, chunks as usize);
            sizes[0] = n;
            return self.split_sizes(&sizes, dim);
        }
        self.split(size, dim)
    }
    /// One tensor for each index of a dimension.
    ///
    /// # Errors
    /// `Index` for a wrong dimension.
    pub fn unbind(&self, dim: i64) -> Result<Vec<Tensor>> {
        let d = normalize_dim(dim, self.dims().len())?;
        if self.dims().is_empty() {
            return Err(Error::index("Dimension specified as 0 but tensor has no dimensions"));
        }
        let y = (0..self.dims()[d]).map(|i| self.select(d as i64, i as i64));
        self.with_one_history("Unbind", d, true, y)
    }
    /// Views of parts of a dimension, as `(start, length)`, which together cover it.
    fn taken_apart(
        &self,
        name: &'static str,
        dim: usize,
        parts: impl Iterator<Item = (i64, i64)>,
    ) -> Result<Vec<Tensor>> {
        self.with_one_history(name, dim, false, parts.map(|(start, len)| self.narrow(dim as i64, start, len)))
    }
    /// Collect views that together cover this tensor, in order. They share a node. With a node each, every gradient
    /// would be padded to full size and all would be added.
    fn with_one_history(
        &self,
        name: &'static str,
        dim: usize,
        unbound: bool,
        views: impl Iterator<Item = Result<Tensor>>,
    ) -> Result<Vec<Tensor>> {
        if !state::grad_enabled() {
            return collected(self, views);
        }
        let y: Vec<Tensor> = state::no_grad(|| collected(self, views))?;
        set_made(&y, Made::OneOfMany);
        if y.is_empty() || !self.requires_grad() {
            return Ok(y);
        }
        let edges: SmallVec<[Edge; 2]> = smallvec![self.history_edge()?];
        let sizes = (!unbound).then(|| y.iter().map(|t| t.dims()[dim]).collect());
        let outputs: SmallVec<[Meta; 1]> = y.iter().map(|t| *t.meta()).collect();
        let node = Node::function(Box::new(Parts { name, dim, sizes }), edges, outputs);
        for (nr, t) in y.iter().enumerate() {
            t.set_new_grad_ref(GradRef::Node(node.clone()), nr as u32);
        }
        Ok(y)
    }
}
