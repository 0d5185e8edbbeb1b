//! `einsum`: sums of products, named by letters. Each pair of operands becomes one batched matrix product.

use crate::policy::{Policies, Policy};
use crate::schema::{Row, Sample, SampleArg, Scope, Tier, ints};
use crate::{Error, Result, Tensor};

/// A dimension of an operand: a letter, or one of the dimensions of an ellipsis, counted from its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Label {
    Rest(usize),
    Letter(u8),
}

/// The part of an equation for one operand or the result: its letters, and the place of the ellipsis.
#[derive(Default)]
struct Subscripts {
    letters: Vec<u8>,
    ellipsis: Option<usize>,
}

fn error(text: impl std::fmt::Display) -> Error {
    Error::runtime(format!("einsum(): {text}"))
}

/// Parse `text`, which starts at byte `from` of the equation. `operand` is `None` for the result.
fn subscripts(text: &str, from: usize, operand: Option<usize>) -> Result<Subscripts> {
    let (bytes, mut s, mut i) = (text.as_bytes(), Subscripts::default(), 0);
    while i < bytes.len() {
        match bytes[i] {
            b' ' => {}
            b'.' => {
                let of = operand.map_or_else(|| "output".to_string(), |n| format!("operand {n}"));
                if s.ellipsis.is_some() {
                    return Err(error(format_args!("found '.' for {of} for which an ellipsis was already found")));
                }
                if bytes.get(i + 1) != Some(&b'.') || bytes.get(i + 2) != Some(&b'.') {
                    let end = if operand.is_none() { " (...)" } else { "" };
                    return Err(error(format_args!("found '.' for {of} that is not part of any ellipsis{end}")));
                }
                s.ellipsis = Some(s.letters.len());
                i += 2;
            }
            c if c.is_ascii_alphabetic() => {
                if operand.is_none() && s.letters.contains(&c) {
                    return Err(error(format_args!(
                        "output subscript {} appears more than once in the output",
                        c as char
                    )));
                }
                s.letters.push(c);
            }
            _ => {
                return Err(error(format_args!(
                    "invalid subscript given at index {} in the equation string, subscripts must be in [a-zA-Z]",
                    from + i
                )));
            }
        }
        i += 1;
    }
    Ok(s)
}

/// An operand with one dimension for each label, each label once.
struct Operand {
    x: Tensor,
    labels: Vec<Label>,
}

impl Operand {
    fn size(&self, l: Label) -> Option<usize> {
        self.labels.iter().position(|k| *k == l).map(|d| self.x.dims()[d])
    }
    /// Labels repeated within the operand select the diagonal of their dimensions.
    fn new(x: &Tensor, s: &Subscripts, number: usize) -> Result<Operand> {
        let rank = x.dims().len();
        if s.ellipsis.is_none() && s.letters.len() != rank {
            return Err(error(format_args!(
                "the number of subscripts in the equation ({}) does not match the number of dimensions ({rank}) for \
                operand {number} and no ellipsis was given",
                s.letters.len()
            )));
        }
        if s.letters.len() > rank {
            return Err(error(format_args!(
                "the number of subscripts in the equation ({}) is more than the number of dimensions ({rank}) for \
                operand {number}",
                s.letters.len()
            )));
        }
        let rest = rank - s.letters.len();
        let at = s.ellipsis.unwrap_or(s.letters.len());
        let mut labels: Vec<Label> = s.letters.iter().map(|&c| Label::Letter(c)).collect();
        labels.splice(at..at, (0..rest).rev().map(Label::Rest));
        let mut x = x.clone();
        let mut d = 0;
        while d < labels.len() {
            let Some(e) = labels[..d].iter().position(|l| *l == labels[d]) else {
                d += 1;
                continue;
            };
            let (m, n) = (x.dims()[e], x.dims()[d]);
            if m != n {
                let Label::Letter(c) = labels[d] else { unreachable!("dimensions of an ellipsis differ") };
                return Err(error(format_args!(
                    "subscript {} is repeated for operand {number} but the sizes don't match, {n} != {m}",
                    c as char
                )));
            }
            // The diagonal is the last dimension. Move it to the place of the first of the two.
            x = x.diagonal(0, e as i64, d as i64)?.movedim(&[-1], &[e as i64])?;
            labels.remove(d);
        }
        Ok(Operand { x, labels })
    }
    /// Sum over labels that no other operand and not the result has.
    /// A dimension of size one is dropped, which keeps the dtype of integers, if the operand is part of a `product`.
    fn without(self, gone: impl Fn(Label) -> bool, product: bool) -> Result<Operand> {
        let is_one = |l: &Label| product && gone(*l) && self.size(*l) == Some(1);
        if self.labels.iter().any(is_one) {
            let left: Vec<Label> = self.labels.iter().copied().filter(|l| !is_one(l)).collect();
            let sizes: Vec<i64> = left.iter().map(|l| self.size(*l).unwrap_or(1) as i64).collect();
            return Operand { x: self.x.reshape(&sizes)?, labels: left }.without(gone, product);
        }
        let dims: Vec<i64> = (0..self.labels.len()).filter(|&d| gone(self.labels[d])).map(|d| d as i64).collect();
        if dims.is_empty() {
            return Ok(self);
        }
        let x = crate::ops::reduce::reduce(crate::ops::reduce::ReduceKind::Sum, &self.x, Some(&dims), false)?;
        let labels = self.labels.iter().copied().filter(|l| !gone(*l)).collect();
        Ok(Operand { x, labels })
    }
    /// The dimensions in the order of the given labels. A missing dimension gets size one.
    fn arranged(&self, order: &[Label]) -> Result<Tensor> {
        let place = |l: &Label| self.labels.iter().position(|k| k == l).map(|d| d as i64);
        let mut all: Vec<i64> = order.iter().filter_map(place).collect();
        let same = all.len() == order.len() && all.len() == self.labels.len();
        all.extend(self.labels.iter().filter(|l| !order.contains(l)).filter_map(place));
        let x = self.x.permute(&all)?;
        let sizes: Vec<i64> = order.iter().map(|l| self.size(*l).unwrap_or(1) as i64).collect();
        if same { Ok(x) } else { x.reshape(&sizes) }
    }
}

/// The product of two operands, summed over labels that are not in `kept`.
fn pair(a: Operand, b: Operand, kept: impl Fn(Label) -> bool) -> Result<Operand> {
    // A label of only one operand is summed there first. A broadcast label counts as such.
    let wide = |x: &Operand, l: Label| x.size(l).is_some_and(|n| n != 1);
    let both = |l: Label| wide(&a, l) && wide(&b, l);
    let shared: Vec<Label> = a.labels.iter().copied().filter(|l| both(*l)).collect();
    let single = |l: Label| !shared.contains(&l) && !kept(l);
    let (a, b) = (a.without(single, true)?, b.without(single, true)?);
    let (batch, inner): (Vec<Label>, Vec<Label>) = shared.iter().copied().partition(|l| kept(*l));
    let mut labels = a.labels.clone();
    labels.extend(b.labels.iter().filter(|l| !a.labels.contains(l)));
    if inner.is_empty() {
        let x = a.arranged(&labels)?.mul(&b.arranged(&labels)?)?;
        return Ok(Operand { x, labels });
    }
    let own = |x: &Operand, other: &Operand| -> Vec<Label> {
        let alone = |l: Label| !shared.contains(&l) && (wide(x, l) || !wide(other, l));
        x.labels.iter().copied().filter(|l| alone(*l)).collect()
    };
    let left = own(&a, &b);
    let right: Vec<Label> = own(&b, &a).into_iter().filter(|l| !left.contains(l)).collect();
    let size = |x: &Operand, v: &[Label]| v.iter().map(|l| x.size(*l).unwrap_or(1)).product::<usize>() as i64;
    let (n, k) = (size(&a, &batch), size(&a, &inner));
    let x = a.arranged(&[&batch[..], &left, &inner].concat())?.reshape(&[n, size(&a, &left), k])?;
    let y = b.arranged(&[&batch[..], &inner, &right].concat())?.reshape(&[n, k, size(&b, &right)])?;
    if x.dtype() != y.dtype() {
        return Err(Error::runtime(format!(
            "expected scalar type {} but found {}",
            x.dtype().scalar_type(),
            y.dtype().scalar_type()
        )));
    }
    let z = x.bmm(&y)?;
    let labels = [&batch[..], &left, &right].concat();
    let sizes: Vec<i64> = batch
        .iter()
        .chain(&left)
        .map(|l| a.size(*l).unwrap_or(1) as i64)
        .chain(right.iter().map(|l| b.size(*l).unwrap_or(1) as i64))
        .collect();
    Ok(Operand { x: z.reshape(&sizes)?, labels })
}

/// `torch.einsum`: contract operands from left to right, or in the order of `path`. It holds pairs of positions in the
/// list of remaining operands, to whose end each result is appended.
///
/// # Errors
/// `Runtime` for a malformed equation, or one that does not fit the operands.
pub fn einsum(equation: &str, operands: &[&Tensor], path: Option<&[i64]>) -> Result<Tensor> {
    if operands.is_empty() {
        return Err(error("must provide at least one operand"));
    }
    let (inputs, output) = match equation.find("->") {
        Some(i) => (&equation[..i], Some((&equation[i + 2..], i + 2))),
        None => (equation, None),
    };
    let mut parsed = Vec::new();
    let mut from = 0;
    for (n, part) in inputs.split(',').enumerate() {
        parsed.push(subscripts(part, from, Some(n))?);
        from += part.len() + 1;
        if n >= operands.len() {
            return Err(error("fewer operands were provided than specified in the equation"));
        }
    }
    if parsed.len() < operands.len() {
        return Err(error("more operands were provided than specified in the equation"));
    }
    let mut left = Vec::new();
    for (n, (x, s)) in operands.iter().zip(&parsed).enumerate() {
        left.push(Operand::new(x, s, n)?);
    }
    let rest =
        left.iter().flat_map(|o| &o.labels).filter_map(|l| if let Label::Rest(n) = l { Some(n + 1) } else { None });
    let rest = rest.max().unwrap_or(0);
    let ellipsis = || (0..rest).rev().map(Label::Rest);
    let wanted: Vec<Label> = match output {
        Some((text, from)) => {
            let s = subscripts(text, from, None)?;
            if let Some(c) = s.letters.iter().find(|c| !parsed.iter().any(|p| p.letters.contains(c))) {
                return Err(error(format_args!(
                    "output subscript {} does not appear in the equation for any input operand",
                    *c as char
                )));
            }
            let mut w: Vec<Label> = s.letters.iter().map(|&c| Label::Letter(c)).collect();
            if let Some(at) = s.ellipsis {
                w.splice(at..at, ellipsis());
            }
            w
        }
        None => {
            // The dimensions of the ellipsis, then the letters that occur once.
            let count = |c: u8| parsed.iter().flat_map(|p| &p.letters).filter(|l| **l == c).count();
            ellipsis().chain((b'A'..=b'z').filter(|c| count(*c) == 1).map(Label::Letter)).collect()
        }
    };
    for (n, o) in left.iter().enumerate() {
        for (d, l) in o.labels.iter().enumerate() {
            let seen = left[..n].iter().filter_map(|p| p.size(*l)).find(|m| *m != 1);
            let size = o.x.dims()[d];
            if let Some(m) = seen.filter(|m| size != 1 && *m != size) {
                return Err(match l {
                    Label::Letter(c) => error(format_args!(
                        "subscript {} has size {size} for operand {n} which does not broadcast with previously seen \
                        size {m}",
                        *c as char
                    )),
                    Label::Rest(_) => error(format_args!(
                        "dimension {d} of operand {n} has size {size}, which does not broadcast with previously seen \
                        size {m}"
                    )),
                });
            }
        }
    }
    let mut steps = path.unwrap_or(&[]).chunks(2);
    while left.len() > 1 {
        let (i, j) = match steps.next() {
            Some(&[i, j]) => (i, j),
            Some(_) => return Err(error("expected contraction path given in path parameter to have an even length")),
            None => (0, 1),
        };
        let n = left.len() as i64;
        if i == j || !(0..n).contains(&i) || !(0..n).contains(&j) {
            return Err(error(format_args!("invalid contraction path, got ({i}, {j}) for {n} operands")));
        }
        let (i, j) = (i as usize, j as usize);
        let b = left.remove(i.max(j));
        let a = left.remove(i.min(j));
        let (a, b) = if i < j { (a, b) } else { (b, a) };
        let kept = |l: Label| wanted.contains(&l) || left.iter().any(|o| o.labels.contains(&l));
        let y = pair(a, b, kept)?;
        if path.is_some() { left.push(y) } else { left.insert(0, y) }
    }
    let last = left.pop().expect("one operand is left").without(|l| !wanted.contains(&l), false)?;
    last.arranged(&wanted)
}

fn samples() -> Vec<Sample> {
    let one = |equation: &'static str, shapes: &[&[usize]]| {
        let shapes = shapes.iter().map(|s| s.to_vec()).collect();
        Sample::new(vec![SampleArg::Str(equation), SampleArg::Tensors(shapes, crate::schema::Fill::Normal)])
    };
    vec![
        one("ij,jk->ik", &[&[2, 3], &[3, 4]]),
        one("bij,bjk->bki", &[&[2, 2, 3], &[2, 3, 4]]),
        one("ii->i", &[&[3, 3]]),
        one("i,j", &[&[2], &[3]]),
        one("...ij,...jk", &[&[2, 2, 3], &[3, 2]]),
        one("ijk,jil,kl->", &[&[2, 3, 4], &[3, 2, 5], &[4, 5]]),
        one("ij,j->i", &[&[2, 3], &[1]]),
    ]
}

/// The row of `einsum`.
pub const ROWS: &[Row] = &[Row::new(
    "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    Tier::Composed,
    |a| Ok(einsum(a.str(0)?, &a.tensors(1)?, a.opt_ints(2)?)?.into()),
    || {
        let mut s = samples();
        let mut by_path = s[5].args.clone();
        by_path.push(ints(&[1, 2, 0, 1]));
        s.push(Sample::new(by_path));
        s
    },
)
.doc(
    "Return the sum of products that `equation` describes, such as `\"bij,bjk->bik\"`. Each letter names a dimension \
     of an operand. Letters that are not in the output are summed over, and a letter that occurs twice in one operand \
     takes the diagonal. `...` stands for further dimensions, which broadcast. Without `->`, the output has the \
     ellipsis, then the letters that occur once, in alphabetical order. Operands are contracted from left to right, \
     or in the order of `path`: pairs of positions in the list of remaining operands, to which each result is \
     appended.",
)
.scope(Scope::Function)
.no_out()
.autocast(Policies::both(Policy::Lower))];
