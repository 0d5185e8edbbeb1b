//! A short list of sizes or strides, stored inline. Longer lists are in a table.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Mutex, OnceLock};

/// The most dimensions a tensor may have.
pub const MAX_DIMS: usize = 64;
/// The most items that are stored inline.
const INLINE: usize = 8;

/// Up to [`MAX_DIMS`] sizes or strides. It is `Copy`, so that the shape of a new tensor needs no allocation.
///
/// Up to eight items are stored inline. A longer list is in a table, once for the life of the process, and `items[0]`
/// is its number there. So two equal lists always have equal fields.
#[derive(Clone, Copy)]
pub struct Dims {
    items: [usize; INLINE],
    len: u8,
}

impl Dims {
    /// No dimensions: the shape of a scalar.
    pub const EMPTY: Dims = Dims { items: [0; INLINE], len: 0 };

    /// Copy a slice.
    ///
    /// # Panics
    /// When there are more than [`MAX_DIMS`] items. Use [`Dims::try_new`] for shapes from users.
    #[inline]
    pub fn new(items: &[usize]) -> Dims {
        let mut d = Dims::EMPTY;
        if items.len() > INLINE {
            d.items[0] = intern(items);
        } else {
            d.items[..items.len()].copy_from_slice(items);
        }
        d.len = items.len() as u8;
        d
    }

    /// Copy a slice that a user gave.
    ///
    /// # Errors
    /// `Runtime` when there are too many dimensions.
    pub fn try_new(items: &[usize]) -> crate::Result<Dims> {
        Dims::check_rank(items.len())?;
        Ok(Dims::new(items))
    }

    /// Refuse more dimensions than a tensor may have.
    ///
    /// # Errors
    /// `Runtime`, in PyTorch's wording.
    #[inline]
    pub fn check_rank(rank: usize) -> crate::Result<()> {
        if rank > MAX_DIMS {
            return Err(crate::Error::runtime(format!("only tensors with up to {MAX_DIMS} dims are supported")));
        }
        Ok(())
    }

    /// `n` copies of `v`.
    #[inline]
    pub fn filled(v: usize, n: usize) -> Dims {
        if n > INLINE {
            return Dims::new(&vec![v; n]);
        }
        let mut d = Dims::EMPTY;
        d.items[..n].fill(v);
        d.len = n as u8;
        d
    }

    /// Call `f` with the items, which it may change.
    #[inline]
    pub fn edit<R>(&mut self, f: impl FnOnce(&mut [usize]) -> R) -> R {
        let n = self.len as usize;
        if n <= INLINE {
            return f(&mut self.items[..n]);
        }
        let mut items = self.to_vec();
        let r = f(&mut items);
        *self = Dims::new(&items);
        r
    }

    /// Replace the item at `at`.
    #[inline]
    pub fn set(&mut self, at: usize, v: usize) {
        self.edit(|items| items[at] = v);
    }

    /// The same list with `v` at `at`.
    #[inline]
    pub fn with(mut self, at: usize, v: usize) -> Dims {
        self.set(at, v);
        self
    }

    /// Append one item.
    #[inline]
    pub fn push(&mut self, v: usize) {
        self.insert(self.len as usize, v);
    }

    /// Insert an item before position `at`.
    pub fn insert(&mut self, at: usize, v: usize) {
        let n = self.len as usize;
        if n >= INLINE {
            let mut items = self.to_vec();
            items.insert(at, v);
            *self = Dims::new(&items);
            return;
        }
        self.items.copy_within(at..n, at + 1);
        self.items[at] = v;
        self.len += 1;
    }

    /// Remove and return the item at `at`.
    pub fn remove(&mut self, at: usize) -> usize {
        let n = self.len as usize;
        if n > INLINE {
            let mut items = self.to_vec();
            let v = items.remove(at);
            *self = Dims::new(&items);
            return v;
        }
        let v = self.items[at];
        self.items.copy_within(at + 1..n, at);
        self.len -= 1;
        self.items[n - 1] = 0;
        v
    }

    /// Product of the items. It may have wrapped around for sizes that were not checked; see [`Dims::checked_numel`].
    #[inline]
    pub fn numel(&self) -> usize {
        self.iter().fold(1, |n, &d| n.wrapping_mul(d))
    }

    /// Product of the items; `None` if it overflows.
    #[inline]
    pub fn checked_numel(&self) -> Option<usize> {
        let n = self.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        (n <= isize::MAX as usize).then_some(n)
    }

    /// Row-major strides of a tensor with these sizes.
    #[inline]
    pub fn contiguous_strides(&self) -> Dims {
        if self.len as usize > INLINE {
            return self.ordered_strides(0..self.len as usize);
        }
        let mut s = Dims::EMPTY;
        s.len = self.len;
        let mut step = 1usize;
        for i in (0..self.len as usize).rev() {
            s.items[i] = step;
            step = step.wrapping_mul(self.items[i].max(1));
        }
        s
    }

    /// Strides without gaps of a tensor with these sizes, for dimensions that lie in memory in this `order`, outermost
    /// first.
    pub fn ordered_strides(&self, order: impl DoubleEndedIterator<Item = usize>) -> Dims {
        let mut strides = *self;
        strides.edit(|s| {
            let mut step = 1usize;
            for d in order.rev() {
                s[d] = step;
                step = step.wrapping_mul(self[d].max(1));
            }
        });
        strides
    }
}

/// The lists of more than [`INLINE`] items, each once, for the life of the process.
///
/// Chunk `k` has room for `64 << k` lists and never moves, so reading takes no lock.
struct Table {
    chunks: [OnceLock<Chunk>; 40],
    numbers: Mutex<Option<HashMap<&'static [usize], usize>>>,
}

type Chunk = Box<[OnceLock<&'static [usize]>]>;

static TABLE: Table = Table { chunks: [const { OnceLock::new() }; 40], numbers: Mutex::new(None) };

/// The chunk of a list's number, and its index in the chunk.
fn place(number: usize) -> (usize, usize) {
    let chunk = (number + 64).ilog2() as usize - 6;
    (chunk, number + 64 - (64 << chunk))
}

/// The number of a list in the table.
///
/// # Panics
/// When there are more than [`MAX_DIMS`] items.
#[cold]
#[inline(never)]
fn intern(items: &[usize]) -> usize {
    assert!(items.len() <= MAX_DIMS, "only tensors with up to {MAX_DIMS} dims are supported");
    let mut numbers = TABLE.numbers.lock().unwrap_or_else(|e| e.into_inner());
    let numbers = numbers.get_or_insert_default();
    if let Some(n) = numbers.get(items) {
        return *n;
    }
    let (number, kept): (usize, &'static [usize]) = (numbers.len(), Box::leak(items.into()));
    let (chunk, at) = place(number);
    let chunk = TABLE.chunks[chunk].get_or_init(|| (0..64usize << chunk).map(|_| OnceLock::new()).collect());
    chunk[at].get_or_init(|| kept);
    numbers.insert(kept, number);
    number
}

/// The list with this number.
#[cold]
#[inline(never)]
fn interned(number: usize) -> &'static [usize] {
    let (chunk, at) = place(number);
    let list = TABLE.chunks[chunk].get().and_then(|c| c[at].get());
    list.expect("a list has a number once it is in the table")
}

impl Deref for Dims {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        let n = self.len as usize;
        if n <= INLINE { &self.items[..n] } else { interned(self.items[0]) }
    }
}
impl PartialEq for Dims {
    #[inline]
    fn eq(&self, other: &Dims) -> bool {
        // Items beyond `len` are zero, and equal lists in the table have one number. The differences are folded instead
        // of compared in order: two vector instructions instead of a call.
        let mut differ = (self.len ^ other.len) as usize;
        for i in 0..INLINE {
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
    #[inline]
    fn from_iter<I: IntoIterator<Item = usize>>(it: I) -> Dims {
        let mut it = it.into_iter();
        let mut d = Dims::EMPTY;
        while let Some(v) = it.next() {
            if d.len as usize == INLINE {
                return Dims::new(&d.iter().copied().chain([v]).chain(it).collect::<Vec<_>>());
            }
            d.items[d.len as usize] = v;
            d.len += 1;
        }
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
/// Write the items as `[2, 3]`, as in PyTorch's messages.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_behave_as_short_ones() {
        for n in [0, 1, 7, 8, 9, 10, 33, 63, 64] {
            let items: Vec<usize> = (0..n).map(|i| i % 3 + 1).collect();
            let d = Dims::new(&items);
            assert_eq!(&d[..], &items[..]);
            assert!(d == items.iter().copied().collect::<Dims>());
            assert_eq!(d.numel(), items.iter().product());
            if n > 0 {
                let e = d.with(n - 1, 9);
                assert!(e != d && e[n - 1] == 9 && e[..n - 1] == d[..n - 1]);
                assert!(e.with(n - 1, d[n - 1]) == d);
            }
            if (1..MAX_DIMS).contains(&n) {
                let mut e = d;
                e.insert(n / 2, 5);
                assert_eq!(e.len(), n + 1);
                assert!(e.remove(n / 2) == 5 && e == d);
                e.push(7);
                assert!(e.remove(n) == 7 && e == d);
            }
        }
        assert!(Dims::filled(2, 12) == Dims::new(&[2; 12]));
        assert!(Dims::try_new(&[1; 65]).is_err());
        assert_eq!(Dims::filled(2, 10).contiguous_strides()[..], [512, 256, 128, 64, 32, 16, 8, 4, 2, 1]);
    }

    #[test]
    fn one_long_list_is_kept_once() {
        let n = || TABLE.numbers.lock().unwrap().as_ref().map_or(0, HashMap::len);
        let _ = Dims::new(&[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]);
        let before = n();
        for _ in 0..1000 {
            let _ = Dims::new(&[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]);
        }
        // Other tests may add a few lists at the same time.
        assert!(n() < before + 500);
    }

    #[test]
    fn numbers_have_places_one_after_the_other() {
        assert_eq!([0, 63, 64, 191, 192].map(place), [(0, 0), (0, 63), (1, 0), (1, 127), (2, 0)]);
    }
}
