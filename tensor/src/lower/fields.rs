//! Attributes of ops as numbers, which a program carries to the kernels that it calls.
//!
//! The fields of an op are listed once, with [`fields`]. Writing and reading follow from the list.

use crate::Dims;
use crate::op::F64;
use smallvec::SmallVec;
use torchtpu_kernels::conv::ConvSpec;
use torchtpu_kernels::pool::PoolSpec;

/// The numbers of a call.
pub(crate) type Numbers = SmallVec<[i64; 18]>;

/// A value that a program carries as numbers.
pub(crate) trait Field: Sized {
    /// Append the numbers.
    fn put(&self, to: &mut Numbers);
    /// Take a value from the front of the numbers. `None` where they are those of no value.
    fn take(from: &mut &[i64]) -> Option<Self>;
}

fn first(from: &mut &[i64]) -> Option<i64> {
    let (&n, rest) = from.split_first()?;
    *from = rest;
    Some(n)
}

impl Field for i64 {
    fn put(&self, to: &mut Numbers) {
        to.push(*self);
    }
    fn take(from: &mut &[i64]) -> Option<i64> {
        first(from)
    }
}

impl Field for bool {
    fn put(&self, to: &mut Numbers) {
        to.push(i64::from(*self));
    }
    fn take(from: &mut &[i64]) -> Option<bool> {
        first(from).map(|n| n != 0)
    }
}

impl Field for u8 {
    fn put(&self, to: &mut Numbers) {
        to.push(i64::from(*self));
    }
    fn take(from: &mut &[i64]) -> Option<u8> {
        u8::try_from(first(from)?).ok()
    }
}

impl Field for usize {
    fn put(&self, to: &mut Numbers) {
        to.push(*self as i64);
    }
    fn take(from: &mut &[i64]) -> Option<usize> {
        usize::try_from(first(from)?).ok()
    }
}

impl Field for F64 {
    fn put(&self, to: &mut Numbers) {
        to.push(self.get().to_bits() as i64);
    }
    fn take(from: &mut &[i64]) -> Option<F64> {
        first(from).map(|bits| F64::new(f64::from_bits(bits as u64)))
    }
}

impl Field for Dims {
    fn put(&self, to: &mut Numbers) {
        self.len().put(to);
        self.iter().for_each(|n| n.put(to));
    }
    fn take(from: &mut &[i64]) -> Option<Dims> {
        let rank = usize::take(from)?;
        let sizes = (0..rank).map(|_| usize::take(from)).collect::<Option<SmallVec<[usize; 8]>>>()?;
        Dims::try_new(&sizes).ok()
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, to: &mut Numbers) {
        self.0.put(to);
        self.1.put(to);
    }
    fn take(from: &mut &[i64]) -> Option<(A, B)> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl<T: Field + Copy + Default, const N: usize> Field for [T; N] {
    fn put(&self, to: &mut Numbers) {
        self.iter().for_each(|v| v.put(to));
    }
    fn take(from: &mut &[i64]) -> Option<[T; N]> {
        let mut values = [T::default(); N];
        for v in &mut values {
            *v = T::take(from)?;
        }
        Some(values)
    }
}

/// List the fields of types, in the order of their numbers. What stands behind `;` is not carried and gets a value when
/// the others are read. A condition behind `if` holds for all values.
macro_rules! fields {
    ($($t:ident { $($field:tt),* $(; $($rest:ident: $value:expr),*)? } $(if |$v:ident| $valid:expr)?;)*) => {$(
        impl $crate::lower::fields::Field for $t {
            fn put(&self, to: &mut $crate::lower::fields::Numbers) {
                $($crate::lower::fields::Field::put(&self.$field, to);)*
            }
            fn take(from: &mut &[i64]) -> Option<$t> {
                let value = $t {
                    $($field: $crate::lower::fields::Field::take(from)?,)*
                    $($($rest: $value,)*)?
                };
                $(let $v = &value; if !$valid { return None; })?
                Some(value)
            }
        }
    )*};
}
pub(crate) use fields;

fields! {
    PoolSpec { spatial, kernel, stride, pad, dilation } if |s| (1..=3).contains(&s.spatial);
    ConvSpec { spatial, groups, reverse, stride, pad, x_dilation, w_dilation } if |s| (1..=3).contains(&s.spatial);
}
