//! The number of iterations of a loop, and the work of its body.
//!
//! libtpu's optimised programs seldom say how often a loop runs, but almost all loops count: the condition compares one
//! element of the state with a number, and the body adds a number to that element. Bounds that the state carries
//! unchanged are numbers too.

use super::{MAX_DEPTH, proto};
use std::collections::HashMap;

/// The computations of a module by id.
pub(super) type Computations<'a> = HashMap<i64, &'a proto::Computation>;

/// A whole number as far as it is known before the program runs.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Known {
    Number(i64),
    /// An element of the loop's state, plus a number.
    Element(i64, i64),
}

/// The values of the parameters of a computation.
#[derive(Clone, Copy)]
enum Parameters<'a> {
    /// One parameter, the state of a loop.
    State,
    /// The operands of a fusion.
    Operands(&'a [Option<Known>]),
    /// Those of the program.
    Unknown,
}

/// Return how often the loop `i` of `computation` runs, or `None` if the program does not say it.
pub(super) fn iterations(
    computations: &Computations<'_>,
    computation: &proto::Computation,
    i: &proto::Instruction,
) -> Option<f64> {
    if let Some(known) = i.trips() {
        return Some(known);
    }
    let [body, condition] = i.called[..] else { return None };
    let (body, condition) = (*computations.get(&body)?, *computations.get(&condition)?);
    let search = Search { computations };
    let (a, b, direction) = search.comparison(condition)?;
    let (element, offset, bound, direction) = match (a, b) {
        (Known::Element(e, offset), b) if search.step(body, e) != Some(0) => (e, offset, b, &*direction),
        (a, Known::Element(e, offset)) => (e, offset, a, mirrored(&direction)),
        _ => return None,
    };
    let start = |e: i64| search.element(computation, *i.operands.first()?, e, Parameters::Unknown, 0);
    let number = |known: Known| match known {
        Known::Number(n) => Some(n),
        // A bound in the state must not change.
        Known::Element(e, offset) if search.step(body, e) == Some(0) => match start(e)? {
            Known::Number(n) => n.checked_add(offset),
            Known::Element(..) => None,
        },
        Known::Element(..) => None,
    };
    let Known::Number(first) = start(element)? else { return None };
    let (first, last, step) = (first.checked_add(offset)?, number(bound)?, search.step(body, element)?);
    count(first, last, step, direction).map(|n| n as f64)
}

/// Return how often `first`, `first + step`, ... compares with `last` before it first does not. `None` if this never
/// ends.
fn count(first: i64, last: i64, step: i64, direction: &str) -> Option<i64> {
    let gap = last.checked_sub(first)?;
    let (gap, step) = match direction {
        "LT" => (gap, step),
        "LE" => (gap.checked_add(1)?, step),
        "GT" => (gap.checked_neg()?, step.checked_neg()?),
        "GE" => (gap.checked_neg()?.checked_add(1)?, step.checked_neg()?),
        "NE" if step != 0 && gap % step == 0 && gap / step >= 0 => return Some(gap / step),
        _ => return None,
    };
    match (gap <= 0, step > 0) {
        (true, _) => Some(0),
        (false, true) => Some((gap - 1) / step + 1),
        (false, false) => None,
    }
}

fn mirrored(direction: &str) -> &str {
    match direction {
        "LT" => "GT",
        "LE" => "GE",
        "GT" => "LT",
        "GE" => "LE",
        other => other,
    }
}

fn instruction(of: &proto::Computation, id: i64) -> Option<&proto::Instruction> {
    of.instructions.iter().find(|i| i.id == id)
}

fn root(of: &proto::Computation) -> Option<&proto::Instruction> {
    instruction(of, of.root).or_else(|| of.instructions.last())
}

struct Search<'a> {
    computations: &'a Computations<'a>,
}

impl Search<'_> {
    /// The two sides and the direction of the comparison that a condition returns.
    fn comparison(&self, condition: &proto::Computation) -> Option<(Known, Known, String)> {
        let result = root(condition)?;
        let compared = |of: &proto::Computation, i: &proto::Instruction, parameters: Parameters<'_>| {
            let side = |k: usize| self.scalar(of, *i.operands.get(k)?, parameters, 0);
            Some((side(0)?, side(1)?, i.direction.clone()))
        };
        match &*result.opcode {
            "compare" => compared(condition, result, Parameters::State),
            "fusion" => {
                let (called, operands) = self.fused(condition, result, Parameters::State, 0)?;
                let inner = root(called).filter(|i| i.opcode == "compare")?;
                compared(called, inner, Parameters::Operands(&operands))
            }
            _ => None,
        }
    }

    /// What the body adds to an element of the state.
    fn step(&self, body: &proto::Computation, element: i64) -> Option<i64> {
        match self.element(body, root(body)?.id, element, Parameters::State, 0)? {
            Known::Element(e, step) if e == element => Some(step),
            _ => None,
        }
    }

    /// An element of the tuple `id`.
    fn element(
        &self,
        of: &proto::Computation,
        id: i64,
        element: i64,
        parameters: Parameters<'_>,
        depth: usize,
    ) -> Option<Known> {
        let i = instruction(of, id)?;
        if depth > MAX_DEPTH {
            return None;
        }
        match &*i.opcode {
            "tuple" => self.scalar(of, *i.operands.get(usize::try_from(element).ok()?)?, parameters, depth + 1),
            "parameter" if matches!(parameters, Parameters::State) => Some(Known::Element(element, 0)),
            "opt-barrier" | "copy" => self.element(of, *i.operands.first()?, element, parameters, depth + 1),
            "fusion" => {
                let (called, operands) = self.fused(of, i, parameters, depth)?;
                self.element(called, root(called)?.id, element, Parameters::Operands(&operands), depth + 1)
            }
            _ => None,
        }
    }

    /// The computation of a fusion, and its operands.
    fn fused(
        &self,
        of: &proto::Computation,
        i: &proto::Instruction,
        parameters: Parameters<'_>,
        depth: usize,
    ) -> Option<(&proto::Computation, Vec<Option<Known>>)> {
        let called = *self.computations.get(i.called.first()?)?;
        let operands = i.operands.iter().map(|&o| self.scalar(of, o, parameters, depth + 1)).collect();
        Some((called, operands))
    }

    /// A whole number.
    fn scalar(&self, of: &proto::Computation, id: i64, parameters: Parameters<'_>, depth: usize) -> Option<Known> {
        let i = instruction(of, id)?;
        if depth > MAX_DEPTH {
            return None;
        }
        let operand = |k: usize| self.scalar(of, *i.operands.get(k)?, parameters, depth + 1);
        match &*i.opcode {
            "constant" => i.literal.as_ref()?.number().map(Known::Number),
            "copy" | "bitcast" | "reshape" | "convert" | "copy-done" | "copy-start" => operand(0),
            "get-tuple-element" => self.element(of, *i.operands.first()?, i.tuple_index, parameters, depth + 1),
            "parameter" => match parameters {
                Parameters::Operands(operands) => *operands.get(usize::try_from(i.parameter).ok()?)?,
                _ => None,
            },
            "add" => match (operand(0)?, operand(1)?) {
                (Known::Number(a), Known::Number(b)) => a.checked_add(b).map(Known::Number),
                (Known::Element(e, a), Known::Number(b)) | (Known::Number(b), Known::Element(e, a)) => {
                    Some(Known::Element(e, a.checked_add(b)?))
                }
                _ => None,
            },
            "subtract" => match (operand(0)?, operand(1)?) {
                (Known::Number(a), Known::Number(b)) => a.checked_sub(b).map(Known::Number),
                (Known::Element(e, a), Known::Number(b)) => Some(Known::Element(e, a.checked_sub(b)?)),
                _ => None,
            },
            "fusion" => {
                let (called, operands) = self.fused(of, i, parameters, depth)?;
                self.scalar(called, root(called)?.id, Parameters::Operands(&operands), depth + 1)
            }
            _ => None,
        }
    }
}

/// Return the multiplications and additions of the products of an instruction.
pub(super) fn flops(computations: &Computations<'_>, of: &proto::Computation, i: &proto::Instruction) -> f64 {
    flops_within(computations, of, i, 0)
}

fn flops_within(computations: &Computations<'_>, of: &proto::Computation, i: &proto::Instruction, depth: usize) -> f64 {
    match &*i.opcode {
        "fusion" if depth < MAX_DEPTH => {
            let called = i.called.iter().filter_map(|c| computations.get(c));
            let inner = called.flat_map(|&c| c.instructions.iter().map(move |i| (c, i)));
            inner.map(|(c, i)| flops_within(computations, c, i, depth + 1)).sum()
        }
        "convolution" => {
            let elements = |s: &proto::Shape| s.dimensions.iter().map(|&d| d as f64).product::<f64>();
            let kernel = i.operands.get(1).and_then(|&id| instruction(of, id)).and_then(|k| k.shape.as_ref());
            let (Some(kernel), Some(result), Some(dims)) = (kernel, &i.shape, &i.convolution) else { return 0.0 };
            // Each element of the result sums over the kernel of one channel.
            let channels = kernel.dimensions.get(dims.kernel_output_feature as usize).map_or(1.0, |&d| d as f64);
            2.0 * elements(result) * elements(kernel) / channels.max(1.0)
        }
        _ => 0.0,
    }
}

/// Return the bytes that an instruction reads from device memory and writes to it. A fusion that takes a slice of an
/// operand reads the slice, and one that updates a slice in place writes the slice.
pub(super) fn bytes(computations: &Computations<'_>, of: &proto::Computation, i: &proto::Instruction) -> f64 {
    let operands = i.operands.iter().filter_map(|&id| instruction(of, id));
    let Some(&called) = i.called.first().and_then(|c| computations.get(c)).filter(|_| i.opcode == "fusion") else {
        let read: u64 = operands.map(proto::Instruction::bytes).sum();
        return match &*i.opcode {
            "dynamic-slice" => 2.0 * i.bytes() as f64,
            "dynamic-update-slice" => {
                2.0 * i.operands.get(1).and_then(|&u| instruction(of, u)).map_or(0, |u| u.bytes()) as f64
            }
            _ => (read + i.bytes()) as f64,
        };
    };
    let mut total = 0.0;
    for (k, operand) in operands.enumerate() {
        let parameter = called.instructions.iter().find(|p| p.opcode == "parameter" && p.parameter == k as i64);
        let part = parameter.and_then(|p| read_part(called, p.id, 0));
        let (all, size) = (operand.bytes() as f64, operand.shape.as_ref().map_or(0, proto::Shape::size) as f64);
        // The part is in elements of the computation, where the space of memory is not written.
        total += part.map_or(all, |part| if size > 0.0 { all * (part / size).min(1.0) } else { 0.0 });
    }
    let results: Vec<&proto::Instruction> = match root(called) {
        Some(r) if r.opcode == "tuple" => r.operands.iter().filter_map(|&id| instruction(called, id)).collect(),
        Some(r) => vec![r],
        None => Vec::new(),
    };
    let shapes: Vec<&proto::Shape> = match &i.shape {
        Some(s) if !s.parts.is_empty() => s.parts.iter().collect(),
        Some(s) => vec![s],
        None => Vec::new(),
    };
    for (result, shape) in results.iter().zip(shapes) {
        let written = match update_of(called, result, 0) {
            Some(update) if shape.size() > 0 => shape.bytes() as f64 * (update / shape.size() as f64).min(1.0),
            _ => shape.bytes() as f64,
        };
        total += written;
    }
    total
}

/// The bytes of a value that its users read, if all of them take slices of it or update it in place.
fn read_part(of: &proto::Computation, id: i64, depth: usize) -> Option<f64> {
    let mut total = 0.0;
    for user in of.instructions.iter().filter(|i| i.operands.contains(&id)) {
        total += match &*user.opcode {
            "dynamic-slice" | "slice" | "gather" if user.operands[0] == id => user.shape.as_ref()?.size() as f64,
            "dynamic-update-slice" if user.operands[0] == id => 0.0,
            "bitcast" | "reshape" if depth < MAX_DEPTH => read_part(of, user.id, depth + 1)?,
            _ => return None,
        };
    }
    Some(total)
}

/// The bytes of the update of a value that is one updated in place.
fn update_of(of: &proto::Computation, i: &proto::Instruction, depth: usize) -> Option<f64> {
    match &*i.opcode {
        "dynamic-update-slice" => Some(instruction(of, *i.operands.get(1)?)?.shape.as_ref()?.size() as f64),
        "bitcast" | "reshape" if depth < MAX_DEPTH => update_of(of, instruction(of, *i.operands.first()?)?, depth + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counting_loops_are_counted() {
        assert_eq!(count(0, 16, 1, "LT"), Some(16));
        assert_eq!(count(0, 16, 3, "LT"), Some(6));
        assert_eq!(count(0, 16, 3, "LE"), Some(6));
        assert_eq!(count(15, 0, -1, "GE"), Some(16));
        assert_eq!(count(15, 0, -4, "GT"), Some(4));
        assert_eq!(count(0, 12, 3, "NE"), Some(4));
        assert_eq!(count(5, 5, 1, "LT"), Some(0));
        assert_eq!(count(0, 16, 0, "LT"), None);
        assert_eq!(count(0, 16, 5, "NE"), None);
        assert_eq!(count(0, 16, -1, "LT"), None);
    }
}
