//! The word of a block that leads to its node or leaf.

use super::Tensor;
use super::word::{LEAF, WANTS, untagged};
use crate::graph::{Edge, Leaf, Node};
use crate::{Error, Meta, Result};
use std::ptr::null_mut;
use std::sync::Arc;

/// The autograd state of a tensor.
pub enum GradRef {
    /// The node that computes the gradient of a computed tensor.
    Node(Arc<Node>),
    /// The state of a leaf.
    Leaf(Arc<Leaf>),
}

impl GradRef {
    pub(super) fn into_tagged(self) -> *mut () {
        match self {
            GradRef::Node(n) => Arc::into_raw(n).cast_mut().cast(),
            GradRef::Leaf(l) => {
                let tag = LEAF | if l.requires_grad() { WANTS } else { 0 };
                Arc::into_raw(l).cast_mut().cast::<u8>().wrapping_add(tag).cast()
            }
        }
    }
    /// Take back the pointer of [`GradRef::into_tagged`].
    pub(super) fn from_tagged(p: *mut ()) -> GradRef {
        let base = untagged(p);
        // SAFETY: the pointer came from `Arc::into_raw` of the type that the tag names.
        unsafe {
            if p.addr() & LEAF != 0 {
                GradRef::Leaf(Arc::from_raw(base.cast::<Leaf>()))
            } else {
                GradRef::Node(Arc::from_raw(base.cast::<Node>()))
            }
        }
    }
    /// Another handle to the target of a pointer of [`GradRef::into_tagged`], which stays valid; `None` for null.
    fn of_tagged(p: *mut ()) -> Option<GradRef> {
        (!p.is_null()).then(|| match &*std::mem::ManuallyDrop::new(GradRef::from_tagged(p)) {
            GradRef::Node(n) => GradRef::Node(n.clone()),
            GradRef::Leaf(l) => GradRef::Leaf(l.clone()),
        })
    }
}

/// A leaf as the target of an edge. It holds the leaf's tensor, which costs one reference count instead of a lock and a
/// count.
#[derive(Clone)]
pub struct LeafEdge(Tensor);

impl LeafEdge {
    /// The leaf.
    ///
    /// # Errors
    /// `Runtime` if the tensor has become a computed one.
    pub fn leaf(&self) -> Result<Arc<Leaf>> {
        match self.0.grad_ref() {
            Some(GradRef::Leaf(l)) => Ok(l),
            _ => Err(Error::runtime("a leaf Variable that requires grad has been moved into the graph interior")),
        }
    }
    /// The tensor whose leaf it is.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }
    /// Address of the leaf, which identifies it while it lives.
    #[inline]
    pub fn address(&self) -> usize {
        let p = self.0.header().autograd.peek();
        if p & LEAF != 0 { p & !(LEAF | WANTS) } else { 0 }
    }
    /// Sizes, dtype and device of the tensor.
    pub fn meta(&self) -> &Meta {
        self.0.meta()
    }
}

impl Tensor {
    /// Whether the tensor has a node or a leaf. If not, it requires no gradient.
    #[inline(always)]
    pub fn has_autograd(&self) -> bool {
        self.header().autograd.peek() != 0
    }
    /// Whether the tensor has a node, or a leaf that wants a gradient.
    #[inline(always)]
    pub(crate) fn wants_grad(&self) -> bool {
        self.header().autograd.wants_grad()
    }
    /// Write [`Leaf::requires_grad`] into the word that leads to the leaf.
    pub(crate) fn set_leaf_wants(&self, on: bool) {
        self.header().autograd.set_wants(on);
    }
    /// The node or leaf of this tensor.
    #[inline]
    pub fn grad_ref(&self) -> Option<GradRef> {
        if !self.has_autograd() {
            return None;
        }
        self.header().autograd.look(|p, _| GradRef::of_tagged(p))
    }
    /// Replace the node or leaf, and drop the old one.
    pub fn set_grad_ref(&self, r: Option<GradRef>, output_nr: u32) {
        let old = self.header().autograd.replace(r.map_or(null_mut(), GradRef::into_tagged), output_nr);
        if !old.is_null() {
            drop(GradRef::from_tagged(old));
        }
    }
    /// [`Tensor::set_grad_ref`] for a result that the caller has just made, which no other thread sees yet.
    #[inline]
    pub(crate) fn set_new_grad_ref(&self, r: GradRef, output_nr: u32) {
        let old = self.header().autograd.start(r.into_tagged(), output_nr);
        if !old.is_null() {
            drop(GradRef::from_tagged(old));
        }
    }
    /// The node or leaf of this tensor. If there is none, `r` becomes it.
    pub(crate) fn grad_ref_or(&self, r: GradRef) -> GradRef {
        let new = r.into_tagged();
        let (is_new, r) = self.header().autograd.fill(new, GradRef::of_tagged);
        if !is_new {
            drop(GradRef::from_tagged(new));
        }
        r.expect("the word is not empty now")
    }
    /// Which output of its node this tensor is.
    #[inline]
    pub fn output_nr(&self) -> u32 {
        self.header().autograd.output_nr()
    }
    /// The edge to which this tensor's gradient goes.
    #[inline]
    pub fn edge(&self) -> Edge {
        let p = self.header().autograd.peek();
        if p & LEAF != 0 {
            return if p & WANTS != 0 { Edge::Leaf(LeafEdge(self.clone())) } else { Edge::None };
        }
        self.node_edge()
    }
    #[inline(never)]
    fn node_edge(&self) -> Edge {
        if !self.has_autograd() {
            return Edge::None;
        }
        match self.header().autograd.look(|p, nr| (GradRef::of_tagged(p), nr)) {
            (Some(GradRef::Node(n)), nr) => Edge::Node(n, nr),
            _ => Edge::None,
        }
    }
}
