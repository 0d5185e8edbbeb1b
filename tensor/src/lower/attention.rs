//! The spelling of attention and its gradients for accelerators.
//!
//! Matrix units multiply 16-bit floats and add in `f32`. So 16-bit operands stay as they are, scores and weights are
//! `f32`, and weights are rounded again when a product reads them. Query heads that share a head of keys are rows of
//! one product: keys and values are read once and never repeated. The gradient computes the weights from `lse` alone,
//! without a second division. It takes the sum of weights times their gradients from the output, `sum_s p gp = sum_e g
//! y`, which saves a pass over all scores.
//!
//! Scores are `[b, kv, r, s]`, where the rows `r` are the query heads of one head of keys, one after the other.

use crate::meta::element_type;
use crate::op::{Func, Value, Values};
use crate::ops::attention::Attention;
use crate::types::compute::compute_dtype;
use crate::{DType, Meta};
use smallvec::smallvec;
use torchtpu_stablehlo::{Direction, ElementType, ReduceKind, Type};

/// One attention within a program.
struct Heads<'a> {
    of: &'a Attention,
    /// Batch, heads of keys, query heads for each head of keys, queries, keys.
    b: usize,
    kv: usize,
    group: usize,
    l: usize,
    s: usize,
    /// Element type of operands.
    narrow: ElementType,
    /// Element type of scores.
    wide: ElementType,
}

impl<'a> Heads<'a> {
    fn new(of: &'a Attention, q: &Value, k: &Value, dtype: DType) -> Heads<'a> {
        let ([b, h, l, _], [_, kv, s, _]) = (of.heads_first(q.shape()), of.heads_first(k.shape()));
        let [narrow, wide] = [dtype, compute_dtype(dtype)].map(element_type);
        Heads { of, b, kv, group: h / kv, l, s, narrow, wide }
    }

    /// The queries, or a tensor of the same sizes, as `[b, kv, r, e]`.
    fn rows(&self, f: &mut Func, x: &Value) -> Value {
        let x = self.turned(f, x);
        let e = x.shape()[3];
        f.reshape(&x, &[self.b, self.kv, self.group * self.l, e])
    }

    /// Transpose an operand `[b, h, l, e]` from the order of the op's operands, or back to it.
    fn turned(&self, f: &mut Func, x: &Value) -> Value {
        if self.of.rows_first { f.transpose(x, &[0, 2, 1, 3]) } else { x.clone() }
    }

    /// A result `[b, kv, r, e]` in the sizes of the queries and the dtype of the operands.
    fn as_queries(&self, f: &mut Func, x: &Value) -> Value {
        let x = f.convert(x, self.narrow);
        let e = x.shape()[3];
        let x = f.reshape(&x, &[self.b, self.kv * self.group, self.l, e]);
        self.turned(f, &x)
    }

    /// A result `[b, kv, s, e]` in the order of the op's operands and their dtype.
    fn as_keys(&self, f: &mut Func, x: &Value) -> Value {
        let x = f.convert(x, self.narrow);
        self.turned(f, &x)
    }

    /// A product for each head, over dimension `over` of each operand.
    fn product(&self, f: &mut Func, a: &Value, b: &Value, over: [usize; 2]) -> Value {
        f.dot_general(a, b, (&[0, 1], &[0, 1]), (&[over[0]], &[over[1]]), self.wide, None)
    }

    /// Broadcast a number for each row to each of its scores.
    fn spread(&self, f: &mut Func, x: &Value) -> Value {
        f.broadcast_in_dim(x, &[self.b, self.kv, self.group * self.l, self.s], &[0, 1, 2])
    }

    /// `scale * q k^T + mask`, minus infinity for keys that a query does not see.
    fn scores(&self, f: &mut Func, q: &Value, k: &Value, mask: Option<&Value>) -> Value {
        let products = self.product(f, q, k, [3, 3]);
        let ty = products.ty().clone();
        let scale = f.splat(self.of.scale.get(), &ty);
        let scores = f.binary("stablehlo.multiply", &products, &scale);
        let scores = match mask {
            Some(m) if m.element() == ElementType::Pred => {
                let seen = self.mask(f, m, &ty.shape);
                let hidden = f.splat(f64::NEG_INFINITY, &ty);
                f.select(&seen, &scores, &hidden)
            }
            Some(m) => {
                let m = f.convert(m, self.wide);
                let added = self.mask(f, &m, &ty.shape);
                f.binary("stablehlo.add", &scores, &added)
            }
            None => scores,
        };
        if !self.of.is_causal {
            return scores;
        }
        let places = Type::new(&[self.group, self.l, self.s], ElementType::S32);
        let (query, key) = (f.iota(&places, 1), f.iota(&places, 2));
        let seen = f.compare(Direction::Le, &key, &query);
        let seen = f.reshape(&seen, &ty.shape[2..]);
        let seen = f.broadcast_in_dim(&seen, &ty.shape, &[2, 3]);
        let hidden = f.splat(f64::NEG_INFINITY, &ty);
        f.select(&seen, &scores, &hidden)
    }

    /// A mask that broadcasts to `[b, h, l, s]`, for all scores.
    fn mask(&self, f: &mut Func, m: &Value, scores: &[usize]) -> Value {
        let mut d = [1; 4];
        d[4 - m.rank()..].copy_from_slice(m.shape());
        if self.group == 1 || d[1..3] == [1, 1] {
            return f.broadcast_to(m, scores);
        }
        let heads = if d[1] == 1 { [1, 1] } else { [self.kv, self.group] };
        let m = f.reshape(m, &[d[0], heads[0], heads[1], d[2], d[3]]);
        let m = f.broadcast_to(&m, &[self.b, self.kv, self.group, self.l, self.s]);
        f.reshape(&m, scores)
    }

    /// `x`, replaced by `other` where it equals `value`.
    fn unless(&self, f: &mut Func, x: &Value, value: f64, other: f64) -> Value {
        let [value, other] = [value, other].map(|v| f.splat(v, x.ty()));
        let is_value = f.compare(Direction::Eq, x, &value);
        f.select(&is_value, &other, x)
    }
}

/// `y` and `lse` of `q, k, v[, mask]`.
pub(crate) fn attention(o: &Attention, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
    let h = Heads::new(o, &x[0], &x[1], y[0].dtype);
    let (q, k, v) = (h.rows(f, &x[0]), h.turned(f, &x[1]), h.turned(f, &x[2]));
    let scores = h.scores(f, &q, &k, x.get(3));
    let top = f.reduce(&scores, ReduceKind::Max, &[3]);
    // A query that sees no key has weights of zero, not NaN.
    let top = h.unless(f, &top, f64::NEG_INFINITY, 0.0);
    let below = h.spread(f, &top);
    let below = f.binary("stablehlo.subtract", &scores, &below);
    let powers = f.unary("stablehlo.exponential", &below);
    let sum = f.reduce(&powers, ReduceKind::Add, &[3]);
    let divisor = h.unless(f, &sum, 0.0, 1.0);
    let divisor = h.spread(f, &divisor);
    let weights = f.binary("stablehlo.divide", &powers, &divisor);
    let weights = f.convert(&weights, h.narrow);
    let out = h.product(f, &weights, &v, [3, 2]);
    let log = f.unary("stablehlo.log", &sum);
    let lse = f.binary("stablehlo.add", &log, &top);
    smallvec![h.as_queries(f, &out), f.reshape(&lse, &y[1].dims)]
}

/// Gradients for `q`, `k` and `v` of `g, q, k, v, lse[, y][, mask]`.
pub(crate) fn attention_backward(o: &Attention, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
    let h = Heads::new(o, &x[1], &x[2], y[0].dtype);
    let (g, q, k, v) = (h.rows(f, &x[0]), h.rows(f, &x[1]), h.turned(f, &x[2]), h.turned(f, &x[3]));
    let scores = h.scores(f, &q, &k, o.mask.then(|| &x[5 + usize::from(o.keeps_output)]));
    let lse = f.reshape(&x[4], &scores.shape()[..3]);
    let lse = h.unless(f, &lse, f64::NEG_INFINITY, 0.0);
    let lse = h.spread(f, &lse);
    let below = f.binary("stablehlo.subtract", &scores, &lse);
    let weights = f.unary("stablehlo.exponential", &below);
    let gp = h.product(f, &g, &v, [3, 3]);
    let (a, b) = match o.keeps_output {
        true => (f.convert(&g, h.wide), h.rows(f, &x[5])),
        false => (weights.clone(), gp.clone()),
    };
    let b = f.convert(&b, h.wide);
    let shares = f.binary("stablehlo.multiply", &a, &b);
    let total = f.reduce(&shares, ReduceKind::Add, &[3]);
    let total = h.spread(f, &total);
    let gs = f.binary("stablehlo.subtract", &gp, &total);
    let gs = f.binary("stablehlo.multiply", &weights, &gs);
    let scale = f.splat(o.scale.get(), gs.ty());
    let gs = f.binary("stablehlo.multiply", &gs, &scale);
    let [weights, gs] = [weights, gs].map(|x| f.convert(&x, h.narrow));
    let (gq, gk, gv) =
        (h.product(f, &gs, &k, [3, 2]), h.product(f, &gs, &q, [2, 2]), h.product(f, &weights, &g, [2, 2]));
    smallvec![h.as_queries(f, &gq), h.as_keys(f, &gk), h.as_keys(f, &gv)]
}
