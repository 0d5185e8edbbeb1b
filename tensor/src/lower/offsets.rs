//! Numbers of an op that only select the elements to read or write.
//!
//! `x[3]` and `x[4]` are the same program with different offsets. A device may compile a program that gets such an
//! offset at run time, since the results have the same sizes for all offsets.

use crate::Meta;
use crate::op::{Func, Prim, Value, Values};
use crate::ops::pad::{Pad, SliceUpdate};
use crate::ops::shape::{AsStrided, Slice};
use crate::types::dims::MAX_DIMS;
use smallvec::{SmallVec, smallvec};
use torchtpu_stablehlo::ElementType;

/// Offsets of an op, in elements of a dimension or of a storage.
pub type Offsets = SmallVec<[i64; 2]>;

/// An op with such numbers.
trait Moving: Clone {
    /// The numbers.
    fn offsets(&self) -> Offsets;
    /// The op with other numbers.
    fn at(&self, offsets: &[i64]) -> Self;
    /// The StableHLO of an op whose numbers are zeros, at offsets that are 0-d `s64` values.
    fn lower_at(&self, f: &mut Func, x: &[Value], y: &Meta, offsets: &[Value]) -> Value;
}

impl Moving for Slice {
    fn offsets(&self) -> Offsets {
        smallvec![self.start as i64]
    }
    fn at(&self, offsets: &[i64]) -> Slice {
        Slice { start: offsets[0] as usize, ..*self }
    }
    fn lower_at(&self, f: &mut Func, x: &[Value], _: &Meta, offsets: &[Value]) -> Value {
        slice(f, &x[0], self, &offsets[0])
    }
}

impl Moving for SliceUpdate {
    fn offsets(&self) -> Offsets {
        self.0.offsets()
    }
    fn at(&self, offsets: &[i64]) -> SliceUpdate {
        SliceUpdate(self.0.at(offsets))
    }
    fn lower_at(&self, f: &mut Func, x: &[Value], _: &Meta, offsets: &[Value]) -> Value {
        self.update(f, &x[0], &x[1], &offsets[0])
    }
}

impl Moving for AsStrided {
    fn offsets(&self) -> Offsets {
        smallvec![self.offset as i64]
    }
    fn at(&self, offsets: &[i64]) -> AsStrided {
        AsStrided { offset: offsets[0] as usize, ..*self }
    }
    fn lower_at(&self, f: &mut Func, x: &[Value], y: &Meta, offsets: &[Value]) -> Value {
        let first = f.broadcast_in_dim(&offsets[0], &self.dims, &[]);
        self.take(f, &x[0], &first, y)
    }
}

impl Moving for Pad {
    fn offsets(&self) -> Offsets {
        self.moving().map(|d| i64::from(self.low[d]).abs()).collect()
    }
    fn at(&self, offsets: &[i64]) -> Pad {
        let mut pad = self.clone();
        for (d, &offset) in self.moving().zip(offsets) {
            let both = self.low[d] + self.high[d];
            // Elements that are cut off count as negative padding.
            let low = if both < 0 { -offset } else { offset } as i32;
            (pad.low[d], pad.high[d]) = (low, both - low);
        }
        pad
    }
    fn lower_at(&self, f: &mut Func, x: &[Value], y: &Meta, offsets: &[Value]) -> Value {
        pad(f, self, x, y, offsets)
    }
}

impl<M: Moving> Moving for Box<M> {
    fn offsets(&self) -> Offsets {
        (**self).offsets()
    }
    fn at(&self, offsets: &[i64]) -> Box<M> {
        Box::new((**self).at(offsets))
    }
    fn lower_at(&self, f: &mut Func, x: &[Value], y: &Meta, offsets: &[Value]) -> Value {
        (**self).lower_at(f, x, y, offsets)
    }
}

/// Compute `$does` for an op with offsets, and `$other` for any other op.
macro_rules! moving {
    ($op:expr, $o:ident $wrap:ident => $does:expr, $other:expr) => {
        moving!(@ $op, $o $wrap => $does, $other; Slice SliceUpdate AsStrided Pad)
    };
    (@ $op:expr, $o:ident $wrap:ident => $does:expr, $other:expr; $($name:ident)*) => {
        match $op {
            $(Prim::$name($o) => { #[allow(unused)] let $wrap = Prim::$name; $does })*
            _ => $other,
        }
    };
}

impl Prim {
    /// The numbers that could be passed at run time; empty for most ops.
    #[inline]
    pub fn offsets(&self) -> Offsets {
        moving!(self, o wrap => o.offsets(), Offsets::new())
    }

    /// Whether [`Prim::offsets`] may be non-empty.
    #[inline]
    pub fn has_offsets(&self) -> bool {
        moving!(self, _o wrap => true, false)
    }

    /// The op with zeros for [`Prim::offsets`]. Ops that differ only in their offsets become equal.
    pub fn without_offsets(&self) -> Prim {
        moving!(self, o wrap => wrap(o.at(&[0; MAX_DIMS])), self.clone())
    }

    /// The inverse of [`Prim::without_offsets`]: the op with these offsets.
    ///
    /// # Panics
    /// When the op has no offsets.
    pub fn with_offsets(&self, offsets: &[i64]) -> Prim {
        moving!(self, o wrap => wrap(o.at(offsets)), panic!("{} has no offsets", self.name()))
    }

    /// [`Prim::lower`] for an op [without offsets](Prim::without_offsets), at offsets that are passed at run time as
    /// 0-d `s64` values.
    ///
    /// # Panics
    /// When the op has no offsets.
    pub fn lower_at(&self, f: &mut Func, x: &[Value], y: &[Meta], offsets: &[Value]) -> Values {
        smallvec![moving!(self, o wrap => o.lower_at(f, x, &y[0], offsets), panic!("{} has no offsets", self.name()))]
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
