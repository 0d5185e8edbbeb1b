//! Execution of a segment op by op: see [`crate::xla_cpu::interpret`].

use super::{Body, Engine, Outputs};
use crate::cut::CutReason;
use crate::explain::{self, Explanation};
use crate::failure::Failure;
use crate::form::{Form, Input, Source};
use crate::metrics::{COUNTERS, count};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use torchtpu_tensor::host::{self, HostValue};
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::{DType, Error, Meta};

/// A value of the run, or the reason why it cannot be computed.
type Outcome = Result<HostValue, Arc<Failure>>;

/// The error of kernels that cannot compute a segment.
struct Refused;

impl From<Error> for Refused {
    fn from(_: Error) -> Refused {
        Refused
    }
}

impl Engine {
    /// Compute a segment with the kernels of device `cpu`, fill its outputs, and explain a first run with the cut.
    /// Return `None` if a kernel refuses. Nothing has changed then, and the result of the compiled program counts.
    pub(super) fn interpret(
        &self,
        body: &Body,
        outputs: &Outputs,
        first_run: Option<CutReason>,
    ) -> Option<Result<(), Arc<Failure>>> {
        let start = Instant::now();
        let computed = catch_unwind(AssertUnwindSafe(|| Run::new(body).all())).unwrap_or(Err(Refused)).ok()?;
        count(&COUNTERS.segments_interpreted, 1);
        count(&COUNTERS.nodes_interpreted, body.form.nodes.len() as u64);
        let mut result = Ok(());
        for (slot, outcome) in outputs.0.iter().zip(computed) {
            match outcome {
                Ok(value) => slot.fill_on_host(value),
                Err(failure) => {
                    slot.fail(failure.clone());
                    result = result.and(Err(failure));
                }
            }
        }
        if let Some(cut) = first_run {
            explain::keep(Explanation {
                cut,
                nodes: body.form.nodes.len(),
                ops: body.form.summary(),
                nanos: start.elapsed().as_nanos() as u64,
                from_disk: false,
                is_interpreted: true,
                why: "a program is compiled when it comes again".to_string(),
            });
        }
        Some(result)
    }
}

impl Engine {
    /// Compute a body with one `int64` result on the host. Return `None` if a kernel refuses.
    pub(super) fn compute_on_host(&self, body: &Body) -> Option<i64> {
        let computed = catch_unwind(AssertUnwindSafe(|| Run::new(body).all())).unwrap_or(Err(Refused)).ok()?;
        let value = computed.into_iter().next()?.ok()?;
        value.bytes().try_into().ok().map(i64::from_ne_bytes)
    }
}

/// A walk over the nodes of a segment.
struct Run<'a> {
    body: &'a Body,
    values: Vec<Option<Outcome>>,
    args: Vec<Option<Outcome>>,
    last: LastReaders,
}

/// The last node that reads each value and each argument. Outputs are read after all nodes.
struct LastReaders {
    of_values: Vec<usize>,
    of_args: Vec<usize>,
}

impl LastReaders {
    fn new(form: &Form, needed: &[bool]) -> LastReaders {
        let mut last = LastReaders { of_values: vec![0; form.values.len()], of_args: vec![0; form.args.len()] };
        for n in (0..form.nodes.len()).filter(|&n| needed[n]) {
            for input in form.inputs_of(n) {
                match input.source() {
                    Source::Value(v) => last.of_values[v] = n,
                    Source::Arg(a) => last.of_args[a] = n,
                    Source::Number(..) => {}
                }
            }
        }
        form.outputs.iter().for_each(|&v| last.of_values[v as usize] = usize::MAX);
        last
    }
}

impl Run<'_> {
    fn new(body: &Body) -> Run<'_> {
        let form = &body.form;
        Run {
            body,
            values: vec![None; form.values.len()],
            args: vec![None; form.args.len()],
            last: LastReaders { of_values: Vec::new(), of_args: Vec::new() },
        }
    }

    /// Compute all outputs, and return their outcomes in order.
    fn all(mut self) -> Result<Vec<Outcome>, Refused> {
        let form = &self.body.form;
        if form.calls_custom_kernels() {
            return Err(Refused);
        }
        let needed = form.needed(&form.outputs);
        self.last = LastReaders::new(form, &needed);
        for n in (0..form.nodes.len()).filter(|&n| needed[n]) {
            self.node(n)?;
        }
        let mut outputs = Vec::with_capacity(form.outputs.len());
        for &v in &form.outputs {
            outputs.push(match self.values[v as usize].clone() {
                Some(Ok(value)) => {
                    // The memory of a result may belong to an argument, or to a larger value.
                    let kept = value.into_kept()?;
                    self.values[v as usize] = Some(Ok(kept.clone()));
                    Ok(kept)
                }
                Some(Err(failure)) => Err(failure),
                None => return Err(Refused),
            });
        }
        Ok(outputs)
    }

    fn node(&mut self, n: usize) -> Result<(), Refused> {
        let form = &self.body.form;
        let node = &form.nodes[n];
        let inputs = form.inputs_of(n);
        let (inputs, offsets) = inputs.split_at(inputs.len() - node.offsets as usize);
        let mut x: SmallVec<[HostValue; 4]> = SmallVec::with_capacity(inputs.len());
        let mut failure = None;
        for &input in inputs {
            match self.read(input)? {
                Ok(value) => x.push(value),
                Err(f) => failure = failure.or(Some(f)),
            }
        }
        let range = form.values_of(n);
        match failure {
            Some(f) => self.values[range].fill(Some(Err(f))),
            None => {
                let moved: Prim;
                let op = match offsets {
                    [] => &node.op,
                    _ => {
                        let places: Option<SmallVec<[i64; 2]>> = offsets.iter().map(|&o| self.place(o)).collect();
                        moved = node.op.with_offsets(&places.ok_or(Refused)?);
                        &moved
                    }
                };
                let y: &[Meta] = &form.values[range.clone()];
                let x: SmallVec<[&HostValue; 4]> = x.iter().collect();
                for (slot, value) in self.values[range].iter_mut().zip(host::run(op, &x, y)?) {
                    *slot = Some(Ok(value));
                }
            }
        }
        drop(x);
        for input in inputs {
            match input.source() {
                Source::Value(v) if self.last.of_values[v] == n => self.values[v] = None,
                Source::Arg(a) if self.last.of_args[a] == n => self.args[a] = None,
                _ => {}
            }
        }
        Ok(())
    }

    fn read(&mut self, input: Input) -> Result<Outcome, Refused> {
        match input.source() {
            Source::Value(v) => self.values[v].clone().ok_or(Refused),
            Source::Arg(a) => {
                let slot = &self.body.slots[a];
                Ok(self.args[a].get_or_insert_with(|| slot.on_host()).clone())
            }
            Source::Number(dtype, i) => Ok(Ok(HostValue::number(dtype, self.number(dtype, i))?)),
        }
    }

    fn number(&self, dtype: DType, i: usize) -> &[u8] {
        let size = dtype.size_bytes();
        &self.body.numbers[dtype as usize][i * size..][..size]
    }

    /// Return the offset of an op [with offsets](Prim::offsets): the position where it reads or writes.
    fn place(&self, input: Input) -> Option<i64> {
        let Source::Number(dtype @ DType::I64, i) = input.source() else { return None };
        self.number(dtype, i).try_into().ok().map(i64::from_ne_bytes)
    }
}
