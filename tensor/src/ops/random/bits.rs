//! `RandomBits`: a counter-based generator as an op.

use crate::axes::Axes;
use crate::op::{Facts, Func, Grads, Op, Saved, Saves, Value, Values};
use crate::{DType, Dims, Error, Meta, Result, Tensor};
use smallvec::smallvec;
use torchtpu_stablehlo::{ElementType, RngAlgorithm, Type};

/// Random bits of a counter-based generator (Threefry 2x32, 20 rounds).
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | state | `[2]`: key, counter | `int64` |
/// | next state | `[2]` | `int64` |
/// | bits | `dims` | `int64` if `wide`, else `int32` |
///
/// Each step of the counter gives 64 bits. Narrow elements use the low half first. The counter wraps.
///
/// Programs for platforms that have a generator of their own (`generates_bits`) draw other bits: key and counter seed
/// this generator, which is several times faster than Threefry. The next state is the same on all platforms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RandomBits {
    /// Sizes of the bits.
    pub dims: Dims,
    /// Whether there are 64 bits for each element; else 32.
    pub wide: bool,
}

impl RandomBits {
    /// Steps of the counter.
    fn steps(&self) -> usize {
        if self.wide { self.dims.numel() } else { self.dims.numel().div_ceil(2) }
    }
}

impl RandomBits {
    /// The spelling for platforms with a generator. `state` is `x` without signs.
    fn lower_fastest(&self, f: &mut Func, x: &Value, state: &Value) -> Values {
        // States of two draws differ in a few bits only. Threefry makes independent seeds of them.
        let (_, seed) = f.rng_bit_generator(state, &Type::new(&[2], ElementType::U64), RngAlgorithm::Threefry);
        // The bits have the shape of the result: a TPU generates them in its tiles, and nothing is moved.
        let (bits, signed) =
            if self.wide { (ElementType::U64, ElementType::S64) } else { (ElementType::U32, ElementType::S32) };
        let shape: &[usize] = if self.dims.is_empty() { &[1] } else { &self.dims };
        let (_, words) = f.rng_bit_generator(&seed, &Type::new(shape, bits), RngAlgorithm::Fastest);
        let words = f.bitcast_convert(&words, signed);
        let key = f.slice(x, &[0], &[1], &[1]);
        let counter = f.slice(x, &[1], &[2], &[1]);
        let steps = f.splat_i64(self.steps() as i64, counter.ty());
        let counter = f.binary("stablehlo.add", &counter, &steps);
        smallvec![f.concatenate(&[key, counter], 0), f.reshape(&words, &self.dims)]
    }
}

/// One block of Threefry 2x32, which encrypts the counter with the key.
fn threefry(key: u64, counter: u64) -> u64 {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let (k0, k1) = (key as u32, (key >> 32) as u32);
    let keys = [k0, k1, k0 ^ k1 ^ 0x1BD1_1BDA];
    let (mut x0, mut x1) = ((counter as u32).wrapping_add(keys[0]), ((counter >> 32) as u32).wrapping_add(keys[1]));
    for group in 0..5u32 {
        for r in ROTATIONS[group as usize % 2] {
            x0 = x0.wrapping_add(x1);
            x1 = x1.rotate_left(r) ^ x0;
        }
        x0 = x0.wrapping_add(keys[(group as usize + 1) % 3]);
        x1 = x1.wrapping_add(keys[(group as usize + 2) % 3]).wrapping_add(group + 1);
    }
    u64::from(x0) | u64::from(x1) << 32
}

impl Op for RandomBits {
    const NAME: &'static str = "random_bits";
    const FACTS: Facts = Facts { draws_random: true, ..Facts::NONE };
    const OUTS: usize = 2;
    const DIFFERENTIABLE: u64 = 0;
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let m = *x[0].meta();
        if m.dtype != DType::I64 || m.dims[..] != [2] {
            return Err(Error::runtime("random_bits: state: must be two int64 words"));
        }
        Ok(m)
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, _: usize) -> Meta {
        Meta { dims: self.dims, dtype: if self.wide { DType::I64 } else { DType::I32 }, place: first.place }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::except(u64::MAX, x, y).because("the counter of an element follows from its position")
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let state = x[0].to_vec::<i64>()?;
        let (key, counter) = (state[0] as u64, state[1] as u64);
        let next = counter.wrapping_add(self.steps() as u64);
        if let Some(out) = y[0].view_mut().as_slice_mut::<i64>() {
            out.copy_from_slice(&[state[0], next as i64]);
        }
        let block = |i: usize| threefry(key, counter.wrapping_add(i as u64));
        let mut bits = y[1].view_mut();
        if let Some(out) = bits.as_slice_mut::<i64>() {
            out.iter_mut().enumerate().for_each(|(i, o)| *o = block(i) as i64);
        } else if let Some(out) = bits.as_slice_mut::<i32>() {
            for (i, pair) in out.chunks_mut(2).enumerate() {
                let word = block(i);
                pair.iter_mut().zip([word as i32, (word >> 32) as i32]).for_each(|(o, v)| *o = v);
            }
        }
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
        let (n, steps) = (self.dims.numel(), self.steps());
        if n == 0 {
            return smallvec![x[0].clone(), f.splat(0.0, &y[1].ty())];
        }
        let state = f.bitcast_convert(&x[0], ElementType::U64);
        if f.profile().generates_bits {
            return self.lower_fastest(f, &x[0], &state);
        }
        // Always request 64 bits in each step, because the layout of 32-bit words depends on the shape.
        let (next, words) = f.rng_bit_generator(&state, &Type::new(&[steps], ElementType::U64), RngAlgorithm::Threefry);
        let next = f.bitcast_convert(&next, ElementType::S64);
        let bits = if self.wide {
            f.bitcast_convert(&words, ElementType::S64)
        } else {
            let halves = f.bitcast_convert(&words, ElementType::U32);
            let halves = f.bitcast_convert(&halves, ElementType::S32);
            let line = f.reshape(&halves, &[2 * steps]);
            f.slice_dim(&line, 0, 0, n)
        };
        smallvec![next, f.reshape(&bits, &self.dims)]
    }
    fn vjp(&self, _: &Saved<'_>, _: &Tensor) -> Result<Grads> {
        Ok(smallvec![None]) // bits are integers
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::NONE
    }
}
