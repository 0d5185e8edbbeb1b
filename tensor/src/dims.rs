//! A short list of sizes or strides, kept inline.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// The most dimensions a tensor may have.
pub const MAX_DIMS: usize = 8;

/// Up to [`MAX_DIMS`] sizes or strides. `Copy`, so that making a tensor allocates nothing for its shape.
#[derive(Clone, Copy)]
pub struct Dims {
    items: [usize; MAX_DIMS],
    len: u8,
}

impl Dims {
    /// No dimensions: the shape of a scalar.
    pub const EMPTY: Dims = Dims { items: [0; MAX_DIMS], len: 0 };

    /// Copies a slice.
    ///
    /// # Panics
    /// When there are more than [`MAX_DIMS`] items; user-given shapes go through [`Dims::try_new`].
    #[inline]
    pub fn new(items: &[usize]) -> Dims {
        let mut d = Dims::EMPTY;
        d.items[..items.len()].copy_from_slice(items);
        d.len = items.len() as u8;
        d
    }

    /// Copies a slice that a user gave.
    ///
    /// # Errors
    /// `Runtime` when there are too many dimensions.
    pub fn try_new(items: &[usize]) -> crate::Result<Dims> {
        if items.len() > MAX_DIMS {
            return Err(crate::Error::runtime(format!(
                "tensor has too many ({}) dims; at most {MAX_DIMS} are supported",
                items.len()
            )));
        }
        Ok(Dims::new(items))
    }

    /// `n` copies of `v`.
    #[inline]
    pub fn filled(v: usize, n: usize) -> Dims {
        let mut d = Dims::EMPTY;
        d.items[..n].fill(v);
        d.len = n as u8;
        d
    }

    /// Appends one item.
    #[inline]
    pub fn push(&mut self, v: usize) {
        self.items[self.len as usize] = v;
        self.len += 1;
    }

    /// Inserts an item before position `at`.
    pub fn insert(&mut self, at: usize, v: usize) {
        let n = self.len as usize;
        self.items.copy_within(at..n, at + 1);
        self.items[at] = v;
        self.len += 1;
    }

    /// Removes and returns the item at `at`.
    pub fn remove(&mut self, at: usize) -> usize {
        let v = self.items[at];
        let n = self.len as usize;
        self.items.copy_within(at + 1..n, at);
        self.len -= 1;
        self.items[n - 1] = 0;
        v
    }

    /// Product of the items. Of sizes that nobody has checked yet it may have wrapped around; see [`Dims::checked_numel`].
    #[inline]
    pub fn numel(&self) -> usize {
        self.iter().fold(1, |n, &d| n.wrapping_mul(d))
    }

    /// Product of the items, where it fits the numbers that count elements.
    #[inline]
    pub fn checked_numel(&self) -> Option<usize> {
        let n = self.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        (n <= isize::MAX as usize).then_some(n)
    }

    /// Row-major strides of a tensor with these sizes.
    #[inline]
    pub fn contiguous_strides(&self) -> Dims {
        let mut s = Dims::EMPTY;
        s.len = self.len;
        let mut step = 1usize;
        for i in (0..self.len as usize).rev() {
            s.items[i] = step;
            step = step.wrapping_mul(self.items[i].max(1));
        }
        s
    }
}

impl Deref for Dims {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.items[..self.len as usize]
    }
}
impl DerefMut for Dims {
    #[inline]
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.items[..self.len as usize]
    }
}
impl PartialEq for Dims {
    #[inline]
    fn eq(&self, other: &Dims) -> bool {
        // Items beyond `len` are zero. Folded rather than compared in order: two vector instructions instead of a call.
        let mut differ = (self.len ^ other.len) as usize;
        for i in 0..MAX_DIMS {
            differ |= self.items[i] ^ other.items[i];
        }
        differ == 0
    }
}
impl Eq for Dims {}
impl Hash for Dims {
    #[inline]
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.deref().hash(h);
    }
}
impl FromIterator<usize> for Dims {
    fn from_iter<I: IntoIterator<Item = usize>>(it: I) -> Dims {
        let mut d = Dims::EMPTY;
        it.into_iter().for_each(|v| d.push(v));
        d
    }
}
impl<'a> IntoIterator for &'a Dims {
    type Item = &'a usize;
    type IntoIter = std::slice::Iter<'a, usize>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
/// `[2, 3]`, as PyTorch's messages print sizes.
impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
