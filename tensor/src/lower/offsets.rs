//! Numbers of an op that only select the elements to read or write.
//!
//! `x[3]` and `x[4]` are the same program with different offsets. A device may compile a program that gets such an
//! offset at run time, since the results have the same sizes for all offsets.

use crate::Meta;
use crate::op::{Func, Prim, Value, Values};
use crate::ops::pad::Pad;
use crate::ops::shape::{AsStrided, Slice};
use smallvec::{SmallVec, smallvec};
use torchtpu_stablehlo::ElementType;

/// Offsets of an op, in elements of a dimension or of a storage.
pub type Offsets = SmallVec<[i64; 2]>;

impl Prim {
    /// The numbers that could be passed at run time; empty for most ops.
    #[inline]
    pub fn offsets(&self) -> Offsets {
        match self {
            Prim::Slice(s) => smallvec![s.start as i64],
            Prim::SliceUpdate(s) => smallvec![s.0.start as i64],
            Prim::AsStrided(w) => smallvec![w.offset as i64],
            Prim::Pad(p) => p.moving().map(|d| i64::from(p.low[d]).abs()).collect(),
            _ => Offsets::new(),
        }
    }

    /// Whether [`Prim::offsets`] may be non-empty.
    #[inline]
    pub fn has_offsets(&self) -> bool {
        matches!(self, Prim::Slice(_) | Prim::SliceUpdate(_) | Prim::AsStrided(_) | Prim::Pad(_))
    }

    /// The op with zeros for [`Prim::offsets`]. Ops that differ only in their offsets become equal.
    pub fn without_offsets(&self) -> Prim {
        match self {
            Prim::Slice(s) => Prim::Slice(Slice { start: 0, ..*s }),
            Prim::SliceUpdate(s) => Prim::SliceUpdate(crate::ops::pad::SliceUpdate(Slice { start: 0, ..s.0 })),
            Prim::AsStrided(w) => Prim::AsStrided(Box::new(AsStrided { offset: 0, ..**w })),
            Prim::Pad(p) => {
                let mut q = p.clone();
                for d in p.moving() {
                    (q.low[d], q.high[d]) = (0, p.low[d] + p.high[d]);
                }
                Prim::Pad(q)
            }
            other => other.clone(),
        }
    }

    /// The inverse of [`Prim::without_offsets`]: the op with these offsets.
    ///
    /// # Panics
    /// When the op has no offsets.
    pub fn with_offsets(&self, offsets: &[i64]) -> Prim {
        let place = offsets[0] as usize;
        match self {
            Prim::Slice(s) => Prim::Slice(Slice { start: place, ..*s }),
            Prim::SliceUpdate(s) => Prim::SliceUpdate(crate::ops::pad::SliceUpdate(Slice { start: place, ..s.0 })),
            Prim::AsStrided(w) => Prim::AsStrided(Box::new(AsStrided { offset: place, ..**w })),
            Prim::Pad(p) => {
                let mut q = p.clone();
                for (d, &offset) in p.moving().zip(offsets) {
                    // Elements that are cut off count as negative padding.
                    let low = if p.high[d] < 0 { -offset } else { offset } as i32;
                    (q.low[d], q.high[d]) = (low, p.high[d] - low);
                }
                Prim::Pad(q)
            }
            other => panic!("{} has no offsets", other.name()),
        }
    }

    /// [`Prim::lower`] for an op [without offsets](Prim::without_offsets), at offsets that are passed at run time as
    /// 0-d `s64` values.
    ///
    /// # Panics
    /// When the op has no offsets.
    pub fn lower_at(&self, f: &mut Func, x: &[Value], y: &[Meta], offsets: &[Value]) -> Values {
        smallvec![match self {
            Prim::Slice(s) => slice(f, &x[0], s, &offsets[0]),
            Prim::SliceUpdate(s) => s.update(f, &x[0], &x[1], &offsets[0]),
            Prim::AsStrided(w) => {
                let first = f.broadcast_in_dim(&offsets[0], &w.dims, &[]);
                w.take(f, &x[0], &first, &y[0])
            }
            Prim::Pad(p) => pad(f, p, x, &y[0], offsets),
            other => panic!("{} has no offsets", other.name()),
        }]
    }
}

/// Start indices: `start` for dimension `dim`, zero for all others.
pub(crate) fn starts(f: &mut Func, rank: usize, dim: usize, start: &Value) -> Vec<Value> {
    let zero = f.scalar_i64(0, ElementType::S64);
    (0..rank).map(|d| if d == dim { start.clone() } else { zero.clone() }).collect()
}

/// The elements that `s` selects, from `start` on.
pub(crate) fn slice(f: &mut Func, x: &Value, s: &Slice, start: &Value) -> Value {
    let mut sizes = x.shape().to_vec();
    sizes[s.dim] = s.span();
    let at = starts(f, x.rank(), s.dim, start);
    let all = f.dynamic_slice(x, &at, &sizes);
    let first = Slice { start: 0, ..*s };
    first.take(f, &all)
}

fn pad(f: &mut Func, p: &Pad, x: &[Value], y: &Meta, offsets: &[Value]) -> Value {
    let zero = f.scalar_i64(0, ElementType::S64);
    let (mut from, mut to) = (vec![zero.clone(); y.dims.len()], vec![zero; y.dims.len()]);
    let (mut still, mut sizes) = (p.clone(), x[0].shape().to_vec());
    for (d, offset) in p.moving().zip(offsets) {
        if p.high[d] < 0 {
            from[d] = offset.clone();
            sizes[d] = y.dims[d];
        } else {
            to[d] = offset.clone();
        }
        (still.low[d], still.high[d]) = (0, 0);
    }
    let cut = f.dynamic_slice(&x[0], &from, &sizes);
    let body = still.surround(f, &cut, &x[1]);
    if body.ty().numel() == 0 {
        return f.broadcast_in_dim(&x[1], &y.dims, &[]);
    }
    if body.shape() == &y.dims[..] {
        return body;
    }
    let around = f.broadcast_in_dim(&x[1], &y.dims, &[]);
    f.dynamic_update_slice(&around, &body, &to)
}
