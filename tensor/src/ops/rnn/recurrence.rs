//! A recurrent layer over a whole sequence as one node.
//!
//! A step is written once ([`forward_step`], [`backward_step`]) in terms of [`Lang`], which stands for tensor ops in an
//! expansion and StableHLO in a lowering. So a trace holds one node for each layer, and its program one loop, however
//! long the sequence is.

use crate::axes::Axes;
use crate::op::{Facts, Func, Fused, LowerFn, Outs, Prim, Saves, Value, VjpFn};
use crate::ops::concat::{cat, stack};
use crate::ops::rnn::Kind;
use crate::policy::{Policies, Policy};
use crate::{Dims, Error, Meta, Result, Scalar, Tensor, dispatch, state};
use smallvec::smallvec;
use torchtpu_stablehlo::{Direction, ElementType, Type};

/// The language of a step. Matrices are `[batch, features]`.
pub(crate) trait Lang {
    /// A value.
    type V: Clone;
    fn add(&mut self, a: &Self::V, b: &Self::V) -> Result<Self::V>;
    fn sub(&mut self, a: &Self::V, b: &Self::V) -> Result<Self::V>;
    fn mul(&mut self, a: &Self::V, b: &Self::V) -> Result<Self::V>;
    fn tanh(&mut self, a: &Self::V) -> Result<Self::V>;
    fn sigmoid(&mut self, a: &Self::V) -> Result<Self::V>;
    fn relu(&mut self, a: &Self::V) -> Result<Self::V>;
    /// `1 - a`.
    fn complement(&mut self, a: &Self::V) -> Result<Self::V>;
    /// `g` where `y` is positive, else zero.
    fn where_positive(&mut self, y: &Self::V, g: &Self::V) -> Result<Self::V>;
    /// Columns `from..from + count`.
    fn columns(&mut self, a: &Self::V, from: usize, count: usize) -> Result<Self::V>;
    /// Matrices joined by columns.
    fn join(&mut self, parts: &[Self::V]) -> Result<Self::V>;
}

/// Tensor ops.
pub(crate) struct Eager;

impl Lang for Eager {
    type V = Tensor;
    fn add(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        a.add(b)
    }
    fn sub(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        a.sub(b)
    }
    fn mul(&mut self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        a.mul(b)
    }
    fn tanh(&mut self, a: &Tensor) -> Result<Tensor> {
        a.tanh()
    }
    fn sigmoid(&mut self, a: &Tensor) -> Result<Tensor> {
        a.sigmoid()
    }
    fn relu(&mut self, a: &Tensor) -> Result<Tensor> {
        a.relu()
    }
    fn complement(&mut self, a: &Tensor) -> Result<Tensor> {
        a.neg()?.add_scalar(1)
    }
    fn where_positive(&mut self, y: &Tensor, g: &Tensor) -> Result<Tensor> {
        crate::ops::pointwise::select(&y.gt_scalar(0)?, g, &Tensor::number(Scalar::Float(0.0), g.dtype())?)
    }
    fn columns(&mut self, a: &Tensor, from: usize, count: usize) -> Result<Tensor> {
        a.narrow(-1, from as i64, count as i64)
    }
    fn join(&mut self, parts: &[Tensor]) -> Result<Tensor> {
        cat(&parts.iter().collect::<Vec<_>>(), -1)
    }
}

/// StableHLO.
struct Text<'a>(&'a mut Func);

impl Lang for Text<'_> {
    type V = Value;
    fn add(&mut self, a: &Value, b: &Value) -> Result<Value> {
        Ok(self.0.binary("stablehlo.add", a, b))
    }
    fn sub(&mut self, a: &Value, b: &Value) -> Result<Value> {
        Ok(self.0.binary("stablehlo.subtract", a, b))
    }
    fn mul(&mut self, a: &Value, b: &Value) -> Result<Value> {
        Ok(self.0.binary("stablehlo.multiply", a, b))
    }
    fn tanh(&mut self, a: &Value) -> Result<Value> {
        Ok(self.0.unary("stablehlo.tanh", a))
    }
    fn sigmoid(&mut self, a: &Value) -> Result<Value> {
        Ok(self.0.unary("stablehlo.logistic", a))
    }
    fn relu(&mut self, a: &Value) -> Result<Value> {
        let zero = self.0.splat(0.0, a.ty());
        Ok(self.0.binary("stablehlo.maximum", a, &zero))
    }
    fn complement(&mut self, a: &Value) -> Result<Value> {
        let one = self.0.splat(1.0, a.ty());
        Ok(self.0.binary("stablehlo.subtract", &one, a))
    }
    fn where_positive(&mut self, y: &Value, g: &Value) -> Result<Value> {
        let zero = self.0.splat(0.0, y.ty());
        let positive = self.0.compare(Direction::Gt, y, &zero);
        Ok(self.0.select(&positive, g, &zero))
    }
    fn columns(&mut self, a: &Value, from: usize, count: usize) -> Result<Value> {
        Ok(self.0.slice_dim(a, 1, from, from + count))
    }
    fn join(&mut self, parts: &[Value]) -> Result<Value> {
        Ok(self.0.concatenate(parts, 1))
    }
}

/// The results of a step: the hidden state, the cell state of an LSTM, and values that its gradient needs.
pub(crate) struct Step<V> {
    pub(crate) h: V,
    pub(crate) c: Option<V>,
    kept: Option<V>,
}

/// One step, from the products with the input (`gx`) and with the hidden state (`gh`).
pub(crate) fn forward_step<L: Lang>(
    l: &mut L,
    kind: Kind,
    n: usize,
    gx: &L::V,
    gh: &L::V,
    h: &L::V,
    c: Option<&L::V>,
) -> Result<Step<L::V>> {
    match kind {
        Kind::Tanh | Kind::Relu => {
            let sum = l.add(gx, gh)?;
            let h = if kind == Kind::Tanh { l.tanh(&sum)? } else { l.relu(&sum)? };
            Ok(Step { h, c: None, kept: None })
        }
        Kind::Lstm => {
            let c = c.ok_or_else(|| Error::runtime("lstm expects two hidden states"))?;
            let gates = l.add(gx, gh)?;
            let doors = l.columns(&gates, 0, 2 * n)?;
            let doors = l.sigmoid(&doors)?;
            let (i, f) = (l.columns(&doors, 0, n)?, l.columns(&doors, n, n)?);
            let new = l.columns(&gates, 2 * n, n)?;
            let new = l.tanh(&new)?;
            let out = l.columns(&gates, 3 * n, n)?;
            let out = l.sigmoid(&out)?;
            let (old, added) = (l.mul(&f, c)?, l.mul(&i, &new)?);
            let c = l.add(&old, &added)?;
            let size = l.tanh(&c)?;
            let h = l.mul(&out, &size)?;
            let kept = l.join(&[doors, new, out])?;
            Ok(Step { h, c: Some(c), kept: Some(kept) })
        }
        Kind::Gru => {
            let (xd, hd) = (l.columns(gx, 0, 2 * n)?, l.columns(gh, 0, 2 * n)?);
            let doors = l.add(&xd, &hd)?;
            let doors = l.sigmoid(&doors)?;
            let (reset, update) = (l.columns(&doors, 0, n)?, l.columns(&doors, n, n)?);
            let (xn, hn) = (l.columns(gx, 2 * n, n)?, l.columns(gh, 2 * n, n)?);
            let old = l.mul(&reset, &hn)?;
            let new = l.add(&xn, &old)?;
            let new = l.tanh(&new)?;
            let difference = l.sub(h, &new)?;
            let held = l.mul(&difference, &update)?;
            let kept = l.join(&[doors, new.clone(), hn])?;
            Ok(Step { h: l.add(&held, &new)?, c: None, kept: Some(kept) })
        }
    }
}

/// The operands of a step's gradient: the state before, and the results of the step.
struct Seen<'a, V> {
    h_before: &'a V,
    c_before: Option<&'a V>,
    h: &'a V,
    c: Option<&'a V>,
    kept: Option<&'a V>,
}

/// Gradients of the products with the input and with the state, of the state before (without the part through its
/// product), and of the cell state before.
struct StepGrads<V> {
    gx: V,
    gh: V,
    h: Option<V>,
    c: Option<V>,
}

fn backward_step<L: Lang>(
    l: &mut L,
    kind: Kind,
    n: usize,
    dh: &L::V,
    dc: Option<&L::V>,
    s: &Seen<'_, L::V>,
) -> Result<StepGrads<L::V>> {
    let simple = |g: L::V| StepGrads { gx: g.clone(), gh: g, h: None, c: None };
    let missing = || Error::runtime("a recurrence keeps what its gradient needs");
    match kind {
        Kind::Relu => Ok(simple(l.where_positive(s.h, dh)?)),
        Kind::Tanh => {
            let slope = l.mul(s.h, s.h)?;
            let slope = l.complement(&slope)?;
            Ok(simple(l.mul(dh, &slope)?))
        }
        Kind::Lstm => {
            let (kept, c) = (s.kept.ok_or_else(missing)?, s.c.ok_or_else(missing)?);
            let (before, dc) = (s.c_before.ok_or_else(missing)?, dc.ok_or_else(missing)?);
            let (i, f) = (l.columns(kept, 0, n)?, l.columns(kept, n, n)?);
            let (new, out) = (l.columns(kept, 2 * n, n)?, l.columns(kept, 3 * n, n)?);
            let size = l.tanh(c)?;
            let d_out = l.mul(dh, &size)?;
            let slope = l.mul(&size, &size)?;
            let slope = l.complement(&slope)?;
            let through = l.mul(dh, &out)?;
            let through = l.mul(&through, &slope)?;
            let dc = l.add(dc, &through)?;
            let (di, df) = (l.mul(&dc, &new)?, l.mul(&dc, before)?);
            let d_new = l.mul(&dc, &i)?;
            let (di, df, d_out) = (door(l, &di, &i)?, door(l, &df, &f)?, door(l, &d_out, &out)?);
            let slope = l.mul(&new, &new)?;
            let slope = l.complement(&slope)?;
            let d_new = l.mul(&d_new, &slope)?;
            let g = l.join(&[di, df, d_new, d_out])?;
            Ok(StepGrads { c: Some(l.mul(&dc, &f)?), ..simple(g) })
        }
        Kind::Gru => {
            let kept = s.kept.ok_or_else(missing)?;
            let (reset, update) = (l.columns(kept, 0, n)?, l.columns(kept, n, n)?);
            let (new, hn) = (l.columns(kept, 2 * n, n)?, l.columns(kept, 3 * n, n)?);
            let difference = l.sub(s.h_before, &new)?;
            let d_update = l.mul(dh, &difference)?;
            let d_update = door(l, &d_update, &update)?;
            let rest = l.complement(&update)?;
            let d_new = l.mul(dh, &rest)?;
            let slope = l.mul(&new, &new)?;
            let slope = l.complement(&slope)?;
            let d_new = l.mul(&d_new, &slope)?;
            let d_reset = l.mul(&d_new, &hn)?;
            let d_reset = door(l, &d_reset, &reset)?;
            let d_hn = l.mul(&d_new, &reset)?;
            let held = l.mul(dh, &update)?;
            let gx = l.join(&[d_reset.clone(), d_update.clone(), d_new])?;
            let gh = l.join(&[d_reset, d_update, d_hn])?;
            Ok(StepGrads { gx, gh, h: Some(held), c: None })
        }
    }
}

/// The gradient `g * s * (1 - s)` of a sigmoid.
fn door<L: Lang>(l: &mut L, g: &L::V, s: &L::V) -> Result<L::V> {
    let rest = l.complement(s)?;
    let slope = l.mul(s, &rest)?;
    l.mul(g, &slope)
}

/// A recurrent layer in one direction.
///
/// | operand | shape |
/// |---|---|
/// | gx, the products with the input | `[steps, batch, gates * hidden]` |
/// | h, the hidden state before | `[batch, hidden]` |
/// | w | `[gates * hidden, hidden]` |
/// | c, the cell state before; LSTM only | `[batch, hidden]` |
/// | b, when there is one | `[gates * hidden]` |
/// | y, all hidden states | `[steps, batch, hidden]` |
/// | all cell states; of others but an LSTM the hidden ones again | `[steps, batch, hidden]` |
/// | for the gradient: gates, or the simple layer's hidden states | `[steps, batch, 4 * hidden]` |
///
/// `h' = step(gx, h w^T + b, h, c)` from the first step to the last, or in the other direction with `reverse`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Recurrence {
    /// The kind of the layer.
    pub kind: Kind,
    /// Whether to go from the last step to the first.
    pub reverse: bool,
    /// Whether there is a bias.
    pub bias: bool,
}

/// The gradient of [`Recurrence`]. Operands are the gradients of the hidden states, those of the cell states (LSTM
/// only), all operands of the recurrence and all its results. The results are the gradients of both products, `[steps,
/// batch, gates * hidden]`, and of the states before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecurrenceBackward(pub Recurrence);

/// The operands of a recurrence by name.
struct Operands<'a, V> {
    gx: &'a V,
    h: &'a V,
    w: &'a V,
    c: Option<&'a V>,
    b: Option<&'a V>,
}

impl Recurrence {
    fn has_cell(&self) -> bool {
        self.kind == Kind::Lstm
    }
    fn count(&self) -> usize {
        3 + self.has_cell() as usize + self.bias as usize
    }
    fn operands<'a, V>(&self, x: &[&'a V]) -> Operands<'a, V> {
        let cell = self.has_cell() as usize;
        Operands { gx: x[0], h: x[1], w: x[2], c: self.has_cell().then(|| x[3]), b: self.bias.then(|| x[3 + cell]) }
    }
    fn label(&self) -> &'static str {
        match self.kind {
            Kind::Lstm => "lstm",
            Kind::Gru => "gru",
            Kind::Tanh => "rnn_tanh",
            Kind::Relu => "rnn_relu",
        }
    }
    fn kept_width(&self) -> usize {
        if matches!(self.kind, Kind::Lstm | Kind::Gru) { 4 } else { 1 }
    }
    /// The steps in the order of computation.
    fn order(&self, steps: usize) -> Vec<usize> {
        if self.reverse { (0..steps).rev().collect() } else { (0..steps).collect() }
    }
    /// The state before each step: `first`, then `all` without the last, in the order of steps.
    fn before(&self, first: &Tensor, all: &Tensor) -> Result<Tensor> {
        let (first, steps) = (first.unsqueeze(0)?, all.dims()[0] as i64);
        if self.reverse {
            cat(&[&all.narrow(0, 1, steps - 1)?, &first], 0)
        } else {
            cat(&[&first, &all.narrow(0, 0, steps - 1)?], 0)
        }
    }
    fn run_eagerly(&self, x: &[&Tensor]) -> Result<Outs> {
        let o = self.operands(x);
        let (n, gx) = (o.h.dims()[1], o.gx.unbind(0)?);
        let (mut h, mut c) = (o.h.clone(), o.c.cloned());
        let mut all: Vec<Option<[Tensor; 3]>> = vec![None; gx.len()];
        for t in self.order(gx.len()) {
            let gh = crate::ops::matmul::linear(&h, o.w, o.b)?;
            let s = forward_step(&mut Eager, self.kind, n, &gx[t], &gh, &h, c.as_ref())?;
            h = s.h.clone();
            all[t] = Some([s.h.clone(), s.c.clone().unwrap_or_else(|| s.h.clone()), s.kept.unwrap_or(s.h)]);
            c = s.c;
        }
        let column =
            |i: usize| stack(&all.iter().map(|s| &s.as_ref().expect("every step was taken")[i]).collect::<Vec<_>>(), 0);
        Ok(smallvec![column(0)?, column(1)?, column(2)?])
    }
}

const COUNTER: ElementType = ElementType::S32;

/// Matrix `t` of a list of matrices.
pub(crate) fn page(f: &mut Func, all: &Value, t: &Value) -> Value {
    let zero = f.scalar_i64(0, COUNTER);
    let (rows, columns) = (all.shape()[1], all.shape()[2]);
    let p = f.dynamic_slice(all, &[t.clone(), zero.clone(), zero], &[1, rows, columns]);
    f.reshape(&p, &[rows, columns])
}

pub(crate) fn set_page(f: &mut Func, all: &Value, t: &Value, p: &Value) -> Value {
    let zero = f.scalar_i64(0, COUNTER);
    let p = f.reshape(p, &[1, p.shape()[0], p.shape()[1]]);
    f.dynamic_update_slice(all, &p, &[t.clone(), zero.clone(), zero])
}

/// Call `body` with the number of each step, ascending or descending, and with the values that it carries.
pub(crate) fn for_steps(
    f: &mut Func,
    steps: usize,
    falling: bool,
    init: Vec<Value>,
    body: impl FnOnce(&mut Func, &Value, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let zero = f.scalar_i64(0, COUNTER);
    let init = [vec![zero], init].concat();
    let done = f.while_loop(
        &init,
        |f, carried| {
            let limit = f.scalar_i64(steps as i64, COUNTER);
            f.compare(Direction::Lt, &carried[0], &limit)
        },
        |f, carried| {
            let t = if falling {
                let last = f.scalar_i64(steps as i64 - 1, COUNTER);
                f.binary("stablehlo.subtract", &last, &carried[0])
            } else {
                carried[0].clone()
            };
            let next = body(f, &t, &carried[1..]);
            let one = f.scalar_i64(1, COUNTER);
            let count = f.binary("stablehlo.add", &carried[0], &one);
            [vec![count], next].concat()
        },
    );
    done[1..].to_vec()
}

fn zeros(f: &mut Func, shape: &[usize], e: ElementType) -> Value {
    f.splat(0.0, &Type::new(shape, e))
}

impl Fused for Recurrence {
    const NAME: &'static str = "recurrence";
    const FACTS: Facts = Facts { autocast: Policies::both(Policy::Lower), ..Facts::NONE };
    const OUTS: usize = 3;
    const DIFFERENTIABLE: u64 = 0b011;
    const LOWER: Option<LowerFn<Self>> = Some(|op, f, x, _| {
        let x: Vec<&Value> = x.iter().collect();
        let o = op.operands(&x);
        let (steps, batch, n, e) = (o.gx.shape()[0], o.gx.shape()[1], o.h.shape()[1], o.gx.element());
        let mut init = vec![o.h.clone(), zeros(f, &[steps, batch, n], e)];
        if let Some(c) = o.c {
            init.extend([c.clone(), zeros(f, &[steps, batch, n], e)]);
        }
        if op.kept_width() > 1 {
            init.push(zeros(f, &[steps, batch, op.kept_width() * n], e));
        }
        let done = for_steps(f, steps, op.reverse, init, |f, t, carried| {
            let gx = page(f, o.gx, t);
            let h = &carried[0];
            let mut gh = f.dot_general(h, o.w, (&[], &[]), (&[1], &[1]), e, None);
            if let Some(b) = o.b {
                let b = f.broadcast_in_dim(b, gh.shape(), &[1]);
                gh = f.binary("stablehlo.add", &gh, &b);
            }
            let c = o.c.map(|_| &carried[2]);
            let s = forward_step(&mut Text(f), op.kind, n, &gx, &gh, h, c).expect("text reports no errors");
            let mut next = vec![s.h.clone(), set_page(f, &carried[1], t, &s.h)];
            if let Some(c) = s.c {
                let all = set_page(f, &carried[3], t, &c);
                next.extend([c, all]);
            }
            if let Some(kept) = s.kept {
                next.push(set_page(f, &carried[carried.len() - 1], t, &kept));
            }
            next
        });
        let y = done[1].clone();
        let c = if op.has_cell() { done[3].clone() } else { y.clone() };
        let kept = if op.kept_width() > 1 { done[done.len() - 1].clone() } else { y.clone() };
        smallvec![y, c, kept]
    });
    const VJP: Option<VjpFn<Self>> = Some(|op, s, g| {
        let cells = match s.g(1) {
            Some(g) => Some(g.clone()),
            None if op.has_cell() => Some(Tensor::zeros_like_meta(s.out(1))?),
            None => None,
        };
        let mut operands = vec![g];
        if op.has_cell() {
            operands.extend(cells.as_ref());
        }
        operands.extend((0..op.count()).map(|i| s.x(i)));
        operands.extend((0..3).map(|i| s.y(i)));
        let found = dispatch::call_n(Prim::RecurrenceBackward(RecurrenceBackward(*op)), &operands)?;
        let gh = &found[1];
        let rows = |x: &Tensor| x.flatten(0, 1);
        let gw = if s.needs(2) { Some(rows(gh)?.t()?.matmul(&rows(&op.before(s.x(1), s.y(0))?)?)?) } else { None };
        let mut grads = smallvec![Some(found[0].clone()), Some(found[2].clone()), gw];
        if op.has_cell() {
            grads.push(Some(found[3].clone()));
        }
        if op.bias {
            grads.push(Some(gh.sum_dim(&[0, 1], false)?));
        }
        Ok(grads)
    });
    fn label(&self) -> &'static str {
        Recurrence::label(self)
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let o = self.operands(x);
        let wrong = |what: &str, t: &Tensor, want: &[usize]| {
            Error::runtime(format!("{}: {what} has size {}, but must have {}", self.label(), t.dims(), Dims::new(want)))
        };
        let (steps, batch) = (o.gx.dims()[0], o.gx.dims()[1]);
        let n = o.gx.dims()[2] / self.kind.gates();
        let gates = n * self.kind.gates();
        for (what, state) in [("the hidden state", Some(o.h)), ("the cell state", o.c)] {
            if let Some(t) = state.filter(|t| t.dims()[..] != [batch, n]) {
                return Err(wrong(what, t, &[batch, n]));
            }
        }
        if o.w.dims()[..] != [gates, n] {
            return Err(wrong("weight_hh", o.w, &[gates, n]));
        }
        if let Some(b) = o.b.filter(|b| b.dims()[..] != [gates]) {
            return Err(wrong("bias_hh", b, &[gates]));
        }
        if let Some(t) = x.iter().find(|t| t.dtype() != o.gx.dtype()) {
            return Err(Error::runtime(format!(
                "{}: expected scalar type {} but found {}",
                self.label(),
                o.gx.dtype().scalar_type(),
                t.dtype().scalar_type()
            )));
        }
        crate::op::same_device(x)?;
        Ok(o.gx.meta().with_dims(Dims::new(&[steps, batch, n])))
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, i: usize) -> Meta {
        let width = if i == 2 { self.kept_width() } else { 1 };
        first.with_dims(Dims::new(&[first.dims[0], first.dims[1], width * first.dims[2]]))
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let cell = if self.has_cell() { "n _, " } else { "" };
        Axes::parse(&format!("_ n _, n _, _ _, {cell}_ -> _ n _"), x, y)
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        self.run_eagerly(x)
    }
    fn saves(&self, _: u64) -> Saves {
        Saves::both((1 << self.count()) - 1, 0b111)
    }
}

impl RecurrenceBackward {
    /// Gradients of hidden states and of cell states, the recurrence's operands, its results.
    fn split<'a, V>(&self, x: &[&'a V]) -> (&'a V, Option<&'a V>, Operands<'a, V>, [&'a V; 3], usize) {
        let first = 1 + self.0.has_cell() as usize;
        let results = first + self.0.count();
        let cells = self.0.has_cell().then(|| x[1]);
        (x[0], cells, self.0.operands(&x[first..results]), [x[results], x[results + 1], x[results + 2]], first)
    }
}

impl Fused for RecurrenceBackward {
    const NAME: &'static str = "recurrence_backward";
    const OUTS: usize = 4;
    const LOWER: Option<LowerFn<Self>> = Some(|op, f, x, _| {
        let x: Vec<&Value> = x.iter().collect();
        let (g, gc, o, [y, cs, kept], _) = op.split(&x);
        let of = op.0;
        let (steps, batch, n, e) = (y.shape()[0], y.shape()[1], y.shape()[2], y.element());
        // The states before every step, as one list.
        let before = |f: &mut Func, first: &Value, all: &Value| {
            let first = f.reshape(first, &[1, batch, n]);
            if of.reverse {
                let rest = f.slice_dim(all, 0, 1, steps);
                f.concatenate(&[rest, first], 0)
            } else {
                let rest = f.slice_dim(all, 0, 0, steps - 1);
                f.concatenate(&[first, rest], 0)
            }
        };
        let hs = before(f, o.h, y);
        let cells = o.c.map(|c| before(f, c, cs));
        let width = of.kind.gates() * n;
        let nothing = zeros(f, &[batch, n], e);
        let all = zeros(f, &[steps, batch, width], e);
        let mut init = vec![nothing.clone(), all.clone(), all];
        if of.has_cell() {
            init.push(nothing);
        }
        let done = for_steps(f, steps, !of.reverse, init, |f, t, carried| {
            let here = page(f, g, t);
            let dh = f.binary("stablehlo.add", &carried[0], &here);
            let dc = gc.map(|gc| {
                let here = page(f, gc, t);
                f.binary("stablehlo.add", &carried[3], &here)
            });
            let (h_before, h) = (page(f, &hs, t), page(f, y, t));
            let c_before = cells.as_ref().map(|c| page(f, c, t));
            let c = of.has_cell().then(|| page(f, cs, t));
            let kept = (of.kept_width() > 1).then(|| page(f, kept, t));
            let seen =
                Seen { h_before: &h_before, c_before: c_before.as_ref(), h: &h, c: c.as_ref(), kept: kept.as_ref() };
            let s = backward_step(&mut Text(f), of.kind, n, &dh, dc.as_ref(), &seen).expect("text reports no errors");
            let mut next = f.dot_general(&s.gh, o.w, (&[], &[]), (&[1], &[0]), e, None);
            if let Some(held) = &s.h {
                next = f.binary("stablehlo.add", &next, held);
            }
            let mut carry = vec![next, set_page(f, &carried[1], t, &s.gx), set_page(f, &carried[2], t, &s.gh)];
            carry.extend(s.c);
            carry
        });
        let c = done.get(3).unwrap_or(&done[0]).clone();
        smallvec![done[1].clone(), done[2].clone(), done[0].clone(), c]
    });
    fn label(&self) -> &'static str {
        match self.0.kind {
            Kind::Lstm => "lstm_backward",
            Kind::Gru => "gru_backward",
            Kind::Tanh => "rnn_tanh_backward",
            Kind::Relu => "rnn_relu_backward",
        }
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (g, _, o, [y, ..], _) = self.split(x);
        if g.dims() != y.dims() {
            return Err(Error::runtime(format!("expected a gradient of shape {}, but got {}", y.dims(), g.dims())));
        }
        Ok(*o.gx.meta())
    }
    fn infer_extra(&self, x: &[&Tensor], first: &Meta, i: usize) -> Meta {
        if i == 1 { *first } else { *self.split(x).2.h.meta() }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        let (gc, c) = if self.0.has_cell() { ("_ n _, ", "n _, ") } else { ("", "") };
        let bias = if self.0.bias { "_, " } else { "" };
        let text = format!("_ n _, {gc}_ n _, n _, _ _, {c}{bias}_ n _, _ n _, _ n _ -> _ n _, _ n _, n _, n _");
        Axes::parse(&text, x, y).linear(if self.0.has_cell() { &[0b11] } else { &[0b1] })
    }
    fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
        let (g, gc, o, [y, cs, kept], first) = self.split(x);
        let of = &self.0;
        // For a second differentiation, saved values must have their history.
        let again = match state::grad_enabled() {
            true => Some(of.run_eagerly(&x[first..first + of.count()])?),
            false => None,
        };
        let [y, cs, kept] = match &again {
            Some(again) => [&again[0], &again[1], &again[2]],
            None => [y, cs, kept],
        };
        let (steps, n) = (y.dims()[0], y.dims()[2]);
        let pages = |x: &Tensor| x.unbind(0);
        let (g, ys, hs) = (pages(g)?, pages(y)?, pages(&of.before(o.h, y)?)?);
        let gc = gc.map(pages).transpose()?;
        let cs =
            if of.has_cell() { Some((pages(cs)?, pages(&of.before(o.c.expect("an LSTM's"), cs)?)?)) } else { None };
        let kept = if of.kept_width() > 1 { Some(pages(kept)?) } else { None };
        let mut all: Vec<Option<(Tensor, Tensor)>> = vec![None; steps];
        let (mut dh, mut dc): (Option<Tensor>, Option<Tensor>) = (None, None);
        for t in of.order(steps).into_iter().rev() {
            let plus =
                |carried: &Option<Tensor>, here: &Tensor| carried.as_ref().map_or(Ok(here.clone()), |c| c.add(here));
            let here = plus(&dh, &g[t])?;
            let cell = gc.as_ref().map(|gc| plus(&dc, &gc[t])).transpose()?;
            let seen = Seen {
                h_before: &hs[t],
                c_before: cs.as_ref().map(|c| &c.1[t]),
                h: &ys[t],
                c: cs.as_ref().map(|c| &c.0[t]),
                kept: kept.as_ref().map(|k| &k[t]),
            };
            let s = backward_step(&mut Eager, of.kind, n, &here, cell.as_ref(), &seen)?;
            let next = s.gh.matmul(o.w)?;
            dh = Some(s.h.as_ref().map_or(Ok(next.clone()), |held| next.add(held))?);
            dc = s.c;
            all[t] = Some((s.gx, s.gh));
        }
        let column = |pick: fn(&(Tensor, Tensor)) -> &Tensor| {
            stack(&all.iter().map(|s| pick(s.as_ref().expect("every step was taken"))).collect::<Vec<_>>(), 0)
        };
        let dh = dh.ok_or_else(|| Error::runtime("a recurrence has steps"))?;
        let dc = dc.map_or_else(|| dh.shallow_alias(), Ok)?;
        Ok(smallvec![column(|s| &s.0)?, column(|s| &s.1)?, dh, dc])
    }
}

/// All hidden states and, for an LSTM, all cell states; see [`Recurrence`].
pub(crate) fn recurrence(
    kind: Kind,
    gx: &Tensor,
    h: &Tensor,
    c: Option<&Tensor>,
    w: &Tensor,
    b: Option<&Tensor>,
    reverse: bool,
) -> Result<Outs> {
    let op = Recurrence { kind, reverse, bias: b.is_some() };
    let operands: Vec<&Tensor> = [gx, h, w].into_iter().chain(c).chain(b).collect();
    dispatch::call_n(Prim::Recurrence(op), &operands)
}
