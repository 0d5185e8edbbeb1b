//! The correspondence of the dimensions of an op's operands and results.
//!
//! An *axis* is an index that an op runs over independently of the others: the rows of a product, the batch of a
//! convolution, each dimension of an element-wise op. [`Axes`] names the axes of one call, and their places in the
//! operands and results. To compute a part of an axis, take that part of the operands that have it, pass the others
//! whole, and call [`Prim::resized`](crate::op::Prim::resized). The results of the parts are concatenated if they have
//! the axis, and combined if they reduce it.
//!
//! The short form is an einsum text; see [`Axes::parse`].
//!
//! ```
//! use torchtpu_tensor::axes::{Axes, Combine};
//! use torchtpu_tensor::{DType, Device, Meta};
//!
//! let meta = |dims: &[usize]| Meta::new(dims, DType::F32, Device::META);
//! let axes = Axes::parse("b i k, b k j -> b i j", &[meta(&[8, 2, 3]), meta(&[8, 3, 4])], &[meta(&[8, 2, 4])])
//!     .reduces("k", Combine::Sum)
//!     .linear(&[0b01, 0b10]);
//! assert_eq!(axes.sizes, [8, 2, 3, 4]);
//! assert_eq!(axes.to_string(), "b i k, b k j -> b i j");
//! ```

use crate::op::Prim;
use crate::ops::pointwise::select;
use crate::{Dims, Meta, Result, Scalar, Tensor, dispatch};
use std::fmt;

/// How the results of parts are combined to the result of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The greatest. NaN wins.
    Max,
    /// The least. NaN wins.
    Min,
}

/// A factor of a dimension's index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Factor {
    /// The axis, by its position in [`Axes::sizes`]; `None` if the op needs the factor whole.
    pub axis: Option<usize>,
    /// The number of places.
    pub size: usize,
}

/// The factors of a dimension, outermost first. Most dimensions have one. A dimension of size one that is broadcast
/// has none.
pub type Dim = Vec<Factor>;

/// A result that lacks an axis, because it combines the places of the axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reduced {
    /// The axis.
    pub axis: usize,
    /// The number of the result.
    pub result: usize,
    /// How the results of parts are combined.
    pub by: Combine,
    /// Operands that only the first part gets, as a bit mask. The other parts get zeros instead. An example is the bias
    /// of a linear layer whose inputs are split.
    pub once: u64,
}

/// An axis of operand 0 whose places are named by the elements of another operand, as the rows of an embedding are. The
/// results lack the axis. [`Axes::call_indexed`] calls the op on a part of it: results for elements that name a place
/// elsewhere are zeros, and the results of the parts are summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Indexed {
    /// The axis.
    pub axis: usize,
    /// The operand of indices.
    pub operand: usize,
}

/// The axes of one call. See the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axes {
    /// The size of each axis.
    pub sizes: Vec<usize>,
    /// The dimensions of each operand.
    pub operands: Vec<Vec<Dim>>,
    /// The dimensions of each result.
    pub results: Vec<Vec<Dim>>,
    /// Results that reduce an axis. A result that lacks an axis of an operand is in this list.
    pub reduced: Vec<Reduced>,
    /// The axis that an operand has indices of.
    pub indexed: Option<Indexed>,
    /// Sets of operands in which all results are jointly linear over the real numbers, as bit masks. They are listed
    /// for floating-point and complex numbers that kernels compute with only, and hold up to rounding.
    pub linear: Vec<u64>,
    /// The reason why there is no axis, for ops that cannot have one.
    pub reason: Option<&'static str>,
    names: Vec<String>,
    /// Operands of floating-point or complex numbers that kernels compute with.
    inexact: u64,
    is_opaque: bool,
    is_exact: bool,
}

/// The factors of a dimension by their names; `None` if the factor is whole.
type Named = Vec<Option<String>>;

impl Axes {
    /// Parse an einsum text: the dimensions of each operand, `->`, and those of each result. Tensors are separated by
    /// `,` and dimensions by spaces.
    ///
    /// | dimension | meaning |
    /// |---|---|
    /// | `i` | the axis `i` |
    /// | `_` | whole: the op does not work on parts of it |
    /// | `(i j _)` | the factors of one dimension, outermost first; at most one size is not known from elsewhere |
    /// | `...` | any number of axes, which are broadcast from the right |
    ///
    /// A dimension of size one has no axis if the axis is larger elsewhere, so operands are broadcast. A tensor of
    /// sizes `[0]` stands for an unwanted result, and has no axis. A single text for a side is that of all its tensors.
    /// Texts of missing optional operands are ignored.
    ///
    /// # Panics
    /// If a text does not have as many dimensions as its tensor.
    pub fn parse(text: &str, x: &[Meta], y: &[Meta]) -> Axes {
        let (operands, results) = text.split_once("->").expect("operands -> results");
        let named = |side: &str, metas: &[Meta]| -> Vec<Vec<Named>> {
            let texts: Vec<&str> = side.split(',').collect();
            let one = (texts.len() == 1).then(|| texts[0]);
            metas
                .iter()
                .enumerate()
                .map(|(i, m)| dimensions(one.or(texts.get(i).copied()).unwrap_or_default(), m, text))
                .collect()
        };
        Axes::named(&named(operands, x), &named(results, y), x, y)
    }

    /// All dimensions are axes with the same position in every tensor, except the dimensions of a mask, which are
    /// whole. Tensors without dimensions are numbers.
    pub(crate) fn except(mask: u64, x: &[Meta], y: &[Meta]) -> Axes {
        let named = |metas: &[Meta]| -> Vec<Vec<Named>> {
            metas
                .iter()
                .map(|m| {
                    names("d", m.dims.len()).enumerate().map(|(i, d)| vec![(mask >> i & 1 == 0).then_some(d)]).collect()
                })
                .collect()
        };
        Axes::named(&named(x), &named(y), x, y)
    }

    /// Every result is computed element by element from operands that are broadcast.
    pub(crate) fn elementwise(x: &[Meta], y: &[Meta]) -> Axes {
        Axes::parse("... -> ...", x, y)
    }

    /// The elements of an operand in row-major order with other sizes. Dimensions are split from the outermost on, as
    /// long as one size divides the other.
    pub(crate) fn reshape(x: &[Meta], y: &[Meta]) -> Axes {
        let from = &x[0].dims;
        let to = &y[0].dims;
        let (mut sizes, mut names) = (Vec::new(), Vec::new());
        let mut sides: [Vec<Dim>; 2] = [vec![Dim::new(); from.len()], vec![Dim::new(); to.len()]];
        let dims = [&from[..], &to[..]];
        // The dimension of each side, and the part of it that is left. Without elements, no dimensions correspond.
        let mut at = if from.contains(&0) { dims.map(<[usize]>::len) } else { [0, 0] };
        let mut left = [1, 1];
        loop {
            for s in 0..2 {
                while left[s] == 1 && at[s] < dims[s].len() {
                    left[s] = dims[s][at[s]];
                    at[s] += 1;
                }
            }
            let common = left[0].min(left[1]);
            if common == 1 {
                break;
            }
            if !left[0].is_multiple_of(common) || !left[1].is_multiple_of(common) {
                // The factors are whole, up to the point where both sides have taken the same number of elements.
                while left[0] != left[1] {
                    let s = usize::from(left[1] < left[0]);
                    left[s] *= dims[s][at[s]];
                    at[s] += 1;
                }
                left = [1, 1];
                continue;
            }
            for s in 0..2 {
                sides[s][at[s] - 1].push(Factor { axis: Some(sizes.len()), size: common });
                left[s] /= common;
            }
            names.push(format!("d{}", sizes.len()));
            sizes.push(common);
        }
        // The rest is whole.
        for s in 0..2 {
            for (dim, &size) in sides[s].iter_mut().zip(dims[s]) {
                let known: usize = dim.iter().map(|f| f.size).product();
                if size != known {
                    dim.push(Factor { axis: None, size: size.checked_div(known).unwrap_or(0) });
                }
            }
        }
        let [operand, result] = sides;
        Axes::of_factors(sizes, names, vec![operand], vec![result], x, y)
    }

    /// The axes of an op about which nothing is known.
    pub fn opaque(reason: &'static str, x: &[Meta], y: &[Meta]) -> Axes {
        let mut axes = Axes::except(u64::MAX, x, y).because(reason);
        axes.is_opaque = true;
        axes
    }

    fn named(operands: &[Vec<Named>], results: &[Vec<Named>], x: &[Meta], y: &[Meta]) -> Axes {
        let mut names: Vec<String> = Vec::new();
        let all = || {
            let tensors = operands.iter().zip(x).chain(results.iter().zip(y));
            tensors.flat_map(|(dims, m)| dims.iter().zip(m.dims.iter().copied()))
        };
        for name in all().flat_map(|(dim, _)| dim).flatten() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let place = |name: &str| names.iter().position(|n| n == name).expect("all names were collected");
        let places: Vec<Vec<Option<usize>>> =
            all().map(|(d, _)| d.iter().map(|n| n.as_deref().map(place)).collect()).collect();
        let mut known: Vec<Option<usize>> = vec![None; names.len()];
        for (dim, (_, size)) in places.iter().zip(all()) {
            if let [Some(axis)] = dim[..]
                && known[axis].is_none_or(|n| n == 1)
            {
                known[axis] = Some(size);
            }
        }
        // Find sizes of axes that occur only in products with others. A dimension of size one may be broadcast, so it
        // gives no information.
        for _ in 0..known.len() {
            for (dim, (_, size)) in places.iter().zip(all()) {
                let unknown: Vec<_> = dim.iter().filter(|a| a.is_none_or(|a| known[a].is_none())).collect();
                let product: usize = dim.iter().flatten().filter_map(|a| known[*a]).product();
                if let [Some(axis)] = unknown[..]
                    && size != 1
                    && product != 0
                {
                    known[*axis] = Some(size / product);
                }
            }
        }
        let known: Vec<usize> = known.into_iter().map(|n| n.unwrap_or(1)).collect();
        let factors = |dim: &Named, size: usize| -> Dim {
            let product: usize = dim.iter().flatten().map(|n| known[place(n)]).product();
            if size == 1 && product != 1 {
                return Dim::new();
            }
            let rest = size.checked_div(product).unwrap_or(0);
            let factor = |n: &Option<String>| match n {
                Some(n) => Factor { axis: Some(place(n)), size: known[place(n)] },
                None => Factor { axis: None, size: rest },
            };
            dim.iter().map(factor).collect()
        };
        let side = |named: &[Vec<Named>], metas: &[Meta]| -> Vec<Vec<Dim>> {
            let tensors = named.iter().zip(metas);
            tensors.map(|(dims, m)| dims.iter().zip(m.dims.iter()).map(|(d, n)| factors(d, *n)).collect()).collect()
        };
        let (operands, results) = (side(operands, x), side(results, y));
        Axes::of_factors(known, names, operands, results, x, y)
    }

    /// Combine the axes from factors.
    pub(crate) fn of_factors(
        sizes: Vec<usize>,
        names: Vec<String>,
        operands: Vec<Vec<Dim>>,
        results: Vec<Vec<Dim>>,
        x: &[Meta],
        y: &[Meta],
    ) -> Axes {
        // Numbers that are only stored cannot be added.
        let adds = |m: &Meta| m.dtype.is_inexact() && !m.dtype.is_stored();
        let inexact = x.iter().take(64).enumerate().fold(0, |m, (i, x)| m | u64::from(adds(x)) << i);
        let is_exact = y.iter().any(|y| !adds(y));
        let (reduced, linear) = (Vec::new(), Vec::new());
        let (reason, indexed, is_opaque) = (None, None, false);
        Axes { sizes, operands, results, reduced, indexed, linear, reason, names, inexact, is_opaque, is_exact }
    }

    /// Every result that lacks the axis of this name combines its places. `...` names all axes of that text.
    pub fn reduces(mut self, name: &str, by: Combine) -> Axes {
        for axis in 0..self.sizes.len() {
            if self.names[axis] != name && !(name == "..." && self.names[axis].starts_with("...")) {
                continue;
            }
            for result in (0..self.results.len()).filter(|r| find(&self.results[*r], axis).is_none()) {
                self.reduced.push(Reduced { axis, result, by, once: 0 });
            }
        }
        self
    }

    /// The elements of an operand name places of the axis with this name.
    pub fn indexes(mut self, operand: usize, name: &str) -> Axes {
        self.indexed = self.names.iter().position(|n| n == name).map(|axis| Indexed { axis, operand });
        self.reduces(name, Combine::Sum)
    }

    /// Call an op on places `start..start + len` of its indexed axis, which operand 0 has a part of. The dimensions of
    /// other axes may be parts too.
    ///
    /// # Errors
    /// The errors of the op.
    pub fn call_indexed(&self, op: Prim, x: &[&Tensor], start: usize, len: usize) -> Result<Vec<Tensor>> {
        let Some(indexed) = self.indexed else { return Ok(dispatch::call_n(op, x)?.into_vec()) };
        let at = x[indexed.operand].sub_scalar(start as i64)?;
        let is_elsewhere = at.lt_scalar(0)?.logical_or(&at.ge_scalar(len as i64)?)?;
        let number = |dtype| Tensor::number(Scalar::Int(0), dtype);
        let at = select(&is_elsewhere, &number(at.dtype())?, &at)?;
        let mut operands = x.to_vec();
        operands[indexed.operand] = &at;
        let masked = |(y, dims): (Tensor, &Vec<Dim>)| {
            if y.numel() == 0 {
                return Ok(y);
            }
            // The dimension of the indices with the axis of each dimension of the result.
            let places = &self.operands[indexed.operand];
            let size = |d: &Dim| match d[..] {
                [Factor { axis: Some(axis), .. }] => find(places, axis).map_or(1, |(d, _)| at.dims()[d]),
                _ => 1,
            };
            let spread: Vec<usize> = dims.iter().map(size).collect();
            let mask = match at.dims().len() == y.dims().len() {
                true => is_elsewhere.clone(),
                false => is_elsewhere.reshape_dims(Dims::new(&spread))?,
            };
            select(&mask, &number(y.dtype())?, &y)
        };
        dispatch::call_n(op, &operands)?.into_iter().zip(&self.results).map(masked).collect()
    }

    /// If an axis is reduced, only the first part gets these operands.
    pub fn once(mut self, operands: u64) -> Axes {
        self.reduced.iter_mut().for_each(|r| r.once = operands);
        self
    }

    /// The results are jointly linear in each of these sets of operands. Sets with an integer or `bool` operand are
    /// left out, and all sets if there is such a result.
    pub fn linear(mut self, sets: &[u64]) -> Axes {
        let inexact = self.inexact;
        self.linear = sets.iter().copied().filter(|s| *s != 0 && !self.is_exact && s & !inexact == 0).collect();
        self
    }

    /// Set the reason why the op has no axis.
    pub fn because(mut self, reason: &'static str) -> Axes {
        self.reason = Some(reason);
        self
    }

    /// Whether nothing is known of the op.
    pub fn is_opaque(&self) -> bool {
        self.is_opaque
    }

    /// The name of an axis in the text.
    pub fn name(&self, axis: usize) -> &str {
        &self.names[axis]
    }

    /// Check that the axes fit the operands and results.
    ///
    /// # Errors
    /// A text that names the place where they do not fit.
    pub fn check(&self, x: &[Meta], y: &[Meta]) -> std::result::Result<(), String> {
        if self.operands.len() != x.len() || self.results.len() != y.len() {
            return Err(format!("`{self}` is not about {} operands and {} results", x.len(), y.len()));
        }
        let sides = [("operand", &self.operands, x), ("result", &self.results, y)];
        for (side, tensors, metas) in sides {
            for (i, (dims, meta)) in tensors.iter().zip(metas).enumerate() {
                let sizes: Vec<usize> = dims.iter().map(|d| d.iter().map(|f| f.size).product()).collect();
                if sizes[..] != meta.dims[..] {
                    return Err(format!("`{self}`: {side} {i} has sizes {}, not {sizes:?}", meta.dims));
                }
                let factors: Vec<&Factor> = dims.iter().flatten().filter(|f| f.axis.is_some()).collect();
                for (k, f) in factors.iter().enumerate() {
                    if f.axis.is_some_and(|a| self.sizes.get(a) != Some(&f.size)) {
                        return Err(format!("`{self}`: {side} {i} has an axis of size {}, which is another", f.size));
                    }
                    if factors[..k].iter().any(|g| g.axis == f.axis) {
                        return Err(format!("`{self}`: {side} {i} has an axis twice"));
                    }
                }
            }
        }
        for axis in 0..self.sizes.len() {
            for (r, dims) in self.results.iter().enumerate() {
                let is_reduced = self.reduced.iter().any(|e| e.axis == axis && e.result == r);
                let has = find(dims, axis).is_some();
                if has && is_reduced {
                    return Err(format!("`{self}`: result {r} has an axis that it reduces, {}", self.names[axis]));
                }
                let read = self.operands.iter().any(|x| find(x, axis).is_some());
                if read && !has && !is_reduced && y[r].numel() > 0 {
                    return Err(format!("`{self}`: result {r} neither has nor reduces {}", self.names[axis]));
                }
            }
        }
        let operands = x.len().min(64) as u32;
        if self.linear.iter().any(|set| *set == 0 || set.checked_shr(operands).unwrap_or(0) != 0) {
            return Err(format!("`{self}`: {:?} are no sets of operands", self.linear));
        }
        Ok(())
    }
}

/// The place of an axis in a tensor: the dimension, and the factor in it.
pub fn find(dims: &[Dim], axis: usize) -> Option<(usize, usize)> {
    dims.iter().enumerate().find_map(|(d, dim)| Some((d, dim.iter().position(|f| f.axis == Some(axis))?)))
}

/// The sizes of a tensor with only `len` places left of an axis.
pub fn part(dims: &[Dim], axis: usize, len: usize) -> Dims {
    dims.iter().map(|d| d.iter().map(|f| if f.axis == Some(axis) { len } else { f.size }).product()).collect()
}

/// Names of `n` dimensions.
pub(crate) fn names(prefix: &str, n: usize) -> impl Iterator<Item = String> {
    (0..n).map(move |i| format!("{prefix}{i}"))
}

/// [`names`] as a text of dimensions.
pub(crate) fn list(prefix: &str, n: usize) -> String {
    names(prefix, n).collect::<Vec<_>>().join(" ")
}

/// The text of `n` whole dimensions.
pub(crate) fn all_whole(n: usize) -> String {
    vec!["_"; n].join(" ")
}

/// The last `n` dimensions of a text without `...`.
pub(crate) fn last(text: &str, n: usize) -> String {
    let (mut depth, mut dims) = (0usize, Vec::<String>::new());
    for token in text.replace('(', " ( ").replace(')', " ) ").split_whitespace() {
        match dims.last_mut() {
            Some(dim) if depth > 0 => *dim = format!("{dim} {token}"),
            _ => dims.push(token.to_string()),
        }
        depth = depth + usize::from(token == "(") - usize::from(token == ")");
    }
    dims[dims.len() - n..].join(" ")
}

/// The factors of a tensor's dimensions, from its part of a text.
fn dimensions(part: &str, meta: &Meta, text: &str) -> Vec<Named> {
    if meta.dims[..] == [0] {
        return vec![vec![None]];
    }
    let mut dims: Vec<Named> = Vec::new();
    let (mut rest, mut group): (Option<usize>, Option<Named>) = (None, None);
    for token in part.replace('(', " ( ").replace(')', " ) ").split_whitespace() {
        let name = (token != "_").then(|| token.to_string());
        match (token, &mut group) {
            ("...", _) => rest = Some(dims.len()),
            ("(", _) => group = Some(Named::new()),
            (")", group) => dims.extend(group.take()),
            (_, Some(group)) => group.push(name),
            (_, None) => dims.push(vec![name]),
        }
    }
    let rank = meta.dims.len();
    let more = rank.checked_sub(dims.len()).filter(|n| *n == 0 || rest.is_some());
    let more = more.unwrap_or_else(|| panic!("`{text}`: a tensor of sizes {} is not `{part}`", meta.dims));
    if let Some(at) = rest {
        dims.splice(at..at, (0..more).rev().map(|i| vec![Some(format!("...{i}"))]));
    }
    dims
}

/// The text that [`Axes::parse`] reads, with a name for each axis.
impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factor = |a: &Factor| a.axis.and_then(|a| self.names.get(a)).map_or("_", String::as_str);
        let dim = |d: &Dim| match &d[..] {
            [] => "1".to_string(),
            [a] => factor(a).to_string(),
            all => format!("({})", all.iter().map(factor).collect::<Vec<_>>().join(" ")),
        };
        let side = |tensors: &[Vec<Dim>]| {
            let texts: Vec<String> =
                tensors.iter().map(|dims| dims.iter().map(dim).collect::<Vec<_>>().join(" ")).collect();
            texts.join(", ")
        };
        write!(f, "{} -> {}", side(&self.operands), side(&self.results))
    }
}
