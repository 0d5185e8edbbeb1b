//! The parts of a row: the ops that it consists of, and the history that follows from them.

use std::cell::RefCell;
use torchtpu_tensor::op::Outs;
use torchtpu_tensor::ops::Prim;
use torchtpu_tensor::schema::{Arg, Args, Ret, Row};
use torchtpu_tensor::{Rep, Result, Tensor, dispatch, fake, foreign, random};

thread_local! {
    /// The values that stand for operands without history, which a row may write.
    pub(super) static WRITABLE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// The parts of a call on tensors without values, while they are looked at.
    pub(super) static PROBE: RefCell<Option<Vec<Part>>> = const { RefCell::new(None) };
}

/// An op of a row, its operands and its results.
pub(super) type Part = (Prim, Vec<Tensor>, Vec<Tensor>);

pub(super) fn tensors<'a>(args: &Args<'a>) -> Vec<&'a Tensor> {
    let mut found = Vec::new();
    for a in args.0 {
        match a {
            Arg::Tensor(t) => found.push(*t),
            Arg::Tensors(list) => found.extend(list.iter().flatten()),
            _ => {}
        }
    }
    found
}

/// The history of a call, before its results are known.
pub(super) struct History {
    /// The operands.
    originals: Vec<Tensor>,
    /// The tensors without values in their places.
    twins: Vec<Tensor>,
    parts: Vec<Part>,
    /// The results of the call on them.
    pub(super) results: Vec<Tensor>,
}

impl History {
    /// Record the history of the results `y`. A value between the parts is computed if backward reads it; else only its
    /// place in the graph is needed.
    pub(super) fn record(&self, y: &[Tensor]) -> Result<()> {
        let known = |t: &Tensor, list: &[Tensor]| list.iter().position(|f| f.is_same(t));
        let is_read = self.parts_read();
        let mut between: Vec<(Tensor, Tensor)> = Vec::new();
        for (part, is_read) in self.parts.iter().zip(is_read) {
            let (op, operands, results) = part;
            let has_history = has_history(part);
            let x: Vec<Tensor> = operands
                .iter()
                .map(|t| match (known(t, &self.twins), between.iter().find(|(f, _)| f.is_same(t))) {
                    (Some(i), _) => self.originals[i].clone(),
                    (None, Some((_, value))) => value.clone(),
                    (None, None) => t.clone(),
                })
                .collect();
            let x: Vec<&Tensor> = x.iter().collect();
            if is_read {
                let values = called(op, &x)?;
                between.extend(results.iter().cloned().zip(values));
                continue;
            }
            let made = |t: &Tensor| known(t, &self.results).map_or_else(|| stand_in(t), |i| y[i].clone());
            let made: Vec<Tensor> = results.iter().map(made).collect();
            between.extend(results.iter().cloned().zip(made.iter().cloned()));
            if has_history {
                foreign::record(op.clone(), &x, &made)?;
            }
        }
        Ok(())
    }
    /// For each part, whether backward, or another part that is computed, reads a result that is no result of the row.
    fn parts_read(&self) -> Vec<bool> {
        let mut read: Vec<&Tensor> = Vec::new();
        for (op, x, y) in self.parts.iter().filter(|part| has_history(part)) {
            let saves = op.saves(u64::MAX);
            read.extend(x.iter().enumerate().filter(|(i, _)| saves.x >> i & 1 == 1).map(|(_, t)| t));
            read.extend(y.iter().enumerate().filter(|(i, _)| saves.y >> i & 1 == 1).map(|(_, t)| t));
        }
        let mut found = vec![false; self.parts.len()];
        for (i, (_, x, y)) in self.parts.iter().enumerate().rev() {
            let is_result = |t: &Tensor| self.results.iter().any(|r| r.is_same(t));
            found[i] = y.iter().any(|t| !is_result(t) && read.iter().any(|r| r.is_same(t)));
            if found[i] {
                read.extend(x);
            }
        }
        found
    }
    /// Return whether the history follows from the parts: each operand and result is known, and no part that makes a
    /// result is computed again.
    fn is_complete(&self) -> bool {
        let is_in = |t: &Tensor, list: &[Tensor]| list.iter().any(|other| other.is_same(t));
        let is_known = |t: &Tensor, before: usize| {
            is_in(t, &self.twins) || !is_stand_in(t) || self.parts[..before].iter().any(|(_, _, y)| is_in(t, y))
        };
        let operands = self.parts.iter().enumerate().all(|(i, (_, x, _))| x.iter().all(|t| is_known(t, i)));
        let results = self.results.iter().all(|t| is_known(t, self.parts.len()) && !is_in(t, &self.twins));
        let remade = self.parts_read();
        let remakes =
            self.parts.iter().zip(remade).any(|((_, _, y), read)| read && y.iter().any(|t| is_in(t, &self.results)));
        operands && results && !remakes && self.results.iter().all(is_stand_in)
    }
}

/// Return whether backward goes through a part. It does not through those of a block without gradients.
fn has_history((_, _, y): &Part) -> bool {
    y.iter().any(Tensor::requires_grad)
}

/// The least number of a value that stands for an operand.
pub(super) const TWINS: u64 = 1 << 48;

/// A tensor in the place of a foreign one, with a device, sizes and strides, and without an object.
fn stand_in(t: &Tensor) -> Tensor {
    numbered(t, 0)
}

fn numbered(t: &Tensor, id: u64) -> Tensor {
    foreign::of_value(t.meta(), *t.strides(), Rep::Foreign.handle(id))
}

/// Return whether a tensor is one of [`stand_in`], or stands for an operand.
fn is_stand_in(t: &Tensor) -> bool {
    let without_object = |handle| Rep::id(handle) == 0 || Rep::id(handle) >= TWINS;
    foreign::is_foreign(t) && t.device_value().is_ok_and(without_object)
}

/// Call an op on tensors without values, and note it as a part of the row that is looked at.
pub(super) fn note_part(mut parts: Vec<Part>, op: &Prim, x: &[&Tensor]) -> Result<Outs> {
    let fakes: Vec<Tensor> = x.iter().map(|t| fake::of(t)).collect::<Result<_>>()?;
    let y = called(op, &fakes.iter().collect::<Vec<_>>());
    let y = y.map(|y| y.iter().map(stand_in).collect::<Outs>());
    if let Ok(y) = &y {
        parts.push((op.clone(), x.iter().map(|t| (*t).clone()).collect(), y.iter().cloned().collect()));
    }
    PROBE.set(Some(parts));
    y
}

/// Call an op, or make a view.
pub(super) fn called(op: &Prim, x: &[&Tensor]) -> Result<Outs> {
    match (op.is_view(), x) {
        (true, [one]) => dispatch::call_view(op.clone(), one).map(|y| [y].into_iter().collect()),
        _ => dispatch::call_n(op.clone(), x),
    }
}

/// Return the history of a row's call, if backward needs its operands and results only.
pub(super) fn history_of(row: &Row, args: &Args<'_>) -> Result<Option<History>> {
    let originals: Vec<Tensor> = tensors(args).into_iter().cloned().collect();
    let mut twins = Vec::with_capacity(originals.len());
    let mut writable = Vec::new();
    for (i, t) in originals.iter().enumerate() {
        let twin = numbered(t, TWINS + i as u64);
        if t.requires_grad() {
            twin.requires_grad_(true)?;
        } else {
            // The call by name writes it, such as running statistics.
            writable.push(Rep::Foreign.handle(TWINS + i as u64));
        }
        twins.push(twin);
    }
    WRITABLE.set(writable);
    let mut next = twins.iter();
    let mut twin = |t: &Option<Tensor>| t.as_ref().and_then(|_| next.next().cloned());
    let lists: Vec<Vec<Option<Tensor>>> = args
        .0
        .iter()
        .map(|a| match a {
            Arg::Tensor(t) => vec![twin(&Some((*t).clone()))],
            Arg::Tensors(list) => list.iter().map(&mut twin).collect(),
            _ => Vec::new(),
        })
        .collect();
    let values: Vec<Arg<'_>> = args
        .0
        .iter()
        .zip(&lists)
        .map(|(a, list)| match (a, &list[..]) {
            (Arg::Tensor(_), [Some(t)]) => Arg::Tensor(t),
            (Arg::Tensors(_), list) => Arg::Tensors(list),
            (a, _) => *a,
        })
        .collect();
    let generator = random::default_generator(originals[0].device());
    let before = generator.snapshot();
    PROBE.set(Some(Vec::new()));
    let r = (row.call)(&Args(&values));
    let Some(parts) = PROBE.take() else { return Ok(None) };
    if !before.is_same(&generator.snapshot()) {
        // Another call would draw other numbers than those that the history has.
        generator.restore(&before)?;
        return Ok(None);
    }
    let results = match r {
        Ok(Ret::Tensor(y)) => vec![y],
        Ok(Ret::Tuple(v) | Ret::List(v)) => v,
        // The call itself fails in the same way.
        _ => return Ok(None),
    };
    let history = History { originals, twins, parts, results };
    Ok(history.is_complete().then_some(history))
}
