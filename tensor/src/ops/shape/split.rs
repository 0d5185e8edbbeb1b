//! Taking a tensor apart into views that together are all of it.

use super::Slice;
use crate::graph::{BackwardFn, Edge, Node};
use crate::op::{Grads, normalize_dim};
use crate::ops::concat::cat;
use crate::ops::pad::unslice;
use crate::{Error, GradRef, Meta, Result, Tensor, state};
use smallvec::{SmallVec, smallvec};

/// Puts the gradients of parts together.
struct Parts {
    name: &'static str,
    /// Along which the parts lie.
    dim: usize,
    /// The parts have lost this dimension, of which each is one index.
    unbound: bool,
    parts: Vec<Meta>,
}

impl BackwardFn for Parts {
    fn name(&self) -> String {
        format!("{}Backward0", self.name)
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        let d = self.dim as i64;
        let whole = |g: &Tensor| if self.unbound { g.unsqueeze(d) } else { Ok(g.clone()) };
        let len = |m: &Meta| if self.unbound { 1 } else { m.dims[self.dim] };
        let given: SmallVec<[usize; 4]> = (0..g.len()).filter(|&i| g[i].is_some()).collect();
        if let ([i], true) = (&given[..], g.len() > 1) {
            let start = self.parts[..*i].iter().map(len).sum();
            let n = self.parts.iter().map(len).sum();
            let s = Slice { dim: self.dim, start, len: len(&self.parts[*i]), step: 1 };
            return Ok(smallvec![g[*i].as_ref().map(|g| unslice(&whole(g)?, &s, n)).transpose()?]);
        }
        if given.is_empty() {
            return Ok(smallvec![None]);
        }
        let zeros = |i: usize| Tensor::zeros_like_meta(&self.parts[i]);
        let parts: Vec<Tensor> =
            (0..g.len()).map(|i| whole(&g[i].clone().map_or_else(|| zeros(i), Ok)?)).collect::<Result<_>>()?;
        Ok(smallvec![Some(cat(&parts.iter().collect::<Vec<_>>(), d)?)])
    }
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
        let parts = if size == 0 { 1 } else { ((n + size - 1) / size).max(1) };
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
        if sizes.iter().sum::<i64>() != n {
            return Err(Error::runtime(format!(
                "split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {d}), but got split_sizes={sizes:?}"
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
        let y = (0..self.dims()[d]).map(|i| self.select(d as i64, i as i64));
        self.with_one_history("Unbind", d, true, y)
    }
    /// Views of parts of a dimension, as `(start, length)`, which together are all of it.
    fn taken_apart(
        &self,
        name: &'static str,
        dim: usize,
        parts: impl Iterator<Item = (i64, i64)>,
    ) -> Result<Vec<Tensor>> {
        self.with_one_history(name, dim, false, parts.map(|(start, len)| self.narrow(dim as i64, start, len)))
    }
    /// Collects views that together are all of this tensor, in order. They share a node: of its own, each would pad its
    /// gradient to full size, and all those would be added.
    fn with_one_history(
        &self,
        name: &'static str,
        dim: usize,
        unbound: bool,
        views: impl Iterator<Item = Result<Tensor>>,
    ) -> Result<Vec<Tensor>> {
        if !(state::grad_enabled() && self.requires_grad()) {
            return views.collect();
        }
        let y: Vec<Tensor> = state::no_grad(|| views.collect::<Result<_>>())?;
        if y.is_empty() {
            return Ok(y);
        }
        let edges: SmallVec<[Edge; 2]> = smallvec![self.history_edge()?];
        let parts: SmallVec<[Meta; 1]> = y.iter().map(|t| *t.meta()).collect();
        let node = Node::function(Box::new(Parts { name, dim, unbound, parts: parts.to_vec() }), edges, parts);
        for (nr, t) in y.iter().enumerate() {
            t.set_grad_ref(Some(GradRef::Node(node.clone())), nr as u32);
        }
        Ok(y)
    }
}
