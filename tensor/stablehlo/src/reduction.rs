//! Reductions over dimensions and windows, and sorting.

use crate::contraction::window_count;
use crate::elementwise::compare_type;
use crate::func::{Array, List, Types, put};
use crate::{ElementType, Func, Type, Value};

/// Number of elements that a window of XLA:CPU's tree reductions has along a dimension.
const WINDOW: usize = 32;

/// Number of summed elements from which a sum goes on in `f64`.
const FEW: usize = 16;

/// The function that joins two elements in a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReduceKind {
    /// Sum. For booleans, "or".
    Add,
    /// Product. For booleans, "and".
    Mul,
    /// Greatest number, or NaN.
    Max,
    /// Least number, or NaN.
    Min,
    /// Bitwise or logical "and".
    And,
    /// Bitwise or logical "or".
    Or,
}

impl ReduceKind {
    /// The operation that joins two elements.
    pub(crate) fn op(self) -> &'static str {
        match self {
            ReduceKind::Add => "stablehlo.add",
            ReduceKind::Mul => "stablehlo.multiply",
            ReduceKind::Max => "stablehlo.maximum",
            ReduceKind::Min => "stablehlo.minimum",
            ReduceKind::And => "stablehlo.and",
            ReduceKind::Or => "stablehlo.or",
        }
    }

    /// Return whether joining many elements in a 16-bit float loses precision that a 32-bit accumulator keeps.
    fn needs_wide_accumulator(self, e: ElementType) -> bool {
        matches!(self, ReduceKind::Add | ReduceKind::Mul) && e.is_half()
    }
}

/// Append the region that joins two scalars.
pub(crate) fn join(op: &str, e: ElementType) -> String {
    let ty = Type::new(&[], e);
    format!(
        "({{\n    ^bb0(%x: {ty}, %y: {ty}):\n      %s = {op} %x, %y : {ty}\n      stablehlo.return %s : {ty}\n    }})"
    )
}

impl Func {
    /// Return the neutral element of the operation.
    fn identity(&mut self, kind: ReduceKind, e: ElementType) -> Value {
        match kind {
            ReduceKind::Add | ReduceKind::Or => self.scalar(0.0, e),
            ReduceKind::Mul => self.scalar(1.0, e),
            ReduceKind::Max => self.lowest(e),
            ReduceKind::Min => self.highest(e),
            ReduceKind::And if e.is_signed() => self.scalar(-1.0, e),
            ReduceKind::And => self.highest(e),
        }
    }

    /// Join all elements along `dims`, which the result does not have. Sums and products of 16-bit floats are
    /// accumulated in `f32`.
    pub fn reduce(&mut self, x: &Value, kind: ReduceKind, dims: &[usize]) -> Value {
        check_dims("reduce", x, dims);
        check_kind("reduce (C6)", kind, x);
        if dims.is_empty() {
            return x.clone();
        }
        let e = x.element();
        if kind.needs_wide_accumulator(e) {
            let wide = self.convert(x, ElementType::F32);
            let sum = self.reduce(&wide, kind, dims);
            return self.convert(&sum, e);
        }
        if kind == ReduceKind::Add && !e.is_integer() && e != ElementType::Pred && self.profile().sums_in_stages {
            return self.sum_in_stages(x, dims);
        }
        self.reduce_at_once(x, kind, dims)
    }

    /// Compute a sum in the form that XLA:CPU computes precisely.
    ///
    /// XLA:CPU cuts a large sum into windows of 32 elements along each reduced dimension, and adds up the elements of a
    /// window one after the other. For k dimensions these are up to 32^k elements, with errors up to 7e-4 in `float32`.
    /// So at most 32 elements, or one dimension, are reduced at a time. Barriers keep the compiler from joining the
    /// stages again. When few elements are left, they are added up in `f64`, which is then free. The result is also two
    /// to three times as fast as one `reduce`.
    fn sum_in_stages(&mut self, x: &Value, dims: &[usize]) -> Value {
        // The compiler would reduce the operand of a reshape that only joins dimensions. So the stages must be those of
        // that operand.
        if let Some((source, inner)) = self.reshaped(x).and_then(|s| Some((s.clone(), dims_before(s, x, dims)?))) {
            let y = self.sum_in_stages(&source, &inner);
            return self.reshape(&y, &without(x.shape(), dims));
        }
        let mut left = dims.to_vec();
        left.sort_unstable();
        let e = x.element();
        let (mut x, mut joined) = (x.clone(), 1usize);
        while let Some(last) = left.pop() {
            let mut stage = vec![last];
            let mut count = x.shape()[last];
            while let Some(&next) = left.last().filter(|&&next| count.saturating_mul(x.shape()[next]) <= WINDOW) {
                count *= x.shape()[next];
                stage.push(next);
                left.pop();
            }
            stage.reverse();
            x = self.reduce_at_once(&x, ReduceKind::Add, &stage);
            joined = joined.saturating_mul(count);
            if !left.is_empty() {
                x = self.optimization_barrier(&[x]).swap_remove(0);
                if e == ElementType::F32 && joined >= FEW {
                    x = self.convert(&x, ElementType::F64);
                }
            }
        }
        self.convert(&x, e)
    }

    fn reduce_at_once(&mut self, x: &Value, kind: ReduceKind, dims: &[usize]) -> Value {
        let e = x.element();
        let init = self.identity(kind, e);
        let ty = Type::new(&without(x.shape(), dims), e);
        self.op(
            &ty,
            format_args!(
                "stablehlo.reduce({x} init: {init}) applies {} across dimensions = [{}] : ({}, {}) -> {ty}",
                kind.op(),
                List(dims),
                x.ty(),
                init.ty()
            ),
        )
    }

    /// Return the greatest (or least) element along `dim` and its index as `S64`. As in PyTorch, NaN wins, and the
    /// first of equal elements.
    pub fn reduce_arg(&mut self, x: &Value, is_max: bool, dim: usize) -> (Value, Value) {
        check_dims("reduce", x, &[dim]);
        let e = x.element();
        // Narrow indices are cheaper everywhere and much cheaper on TPUs, which have no 64-bit integers.
        let index = if i32::try_from(x.shape()[dim]).is_ok() { ElementType::S32 } else { ElementType::S64 };
        let positions = self.iota(&x.ty().with_element(index), dim);
        let init = if is_max { self.lowest(e) } else { self.highest(e) };
        // The first index of all. So a row of infinities gives index 0 instead of that of the initial value.
        let first = self.scalar_i64(0, index);
        let shape = without(x.shape(), &[dim]);
        let (v, i, b) = (Type::new(&[], e), Type::new(&[], index), Type::new(&[], ElementType::Pred));
        let kind = compare_type(e);
        let better = if is_max { "GT" } else { "LT" };
        let mut body = format!(
            "({{\n    ^bb0(%x: {v}, %i: {i}, %y: {v}, %j: {i}):\n      \
             %better = stablehlo.compare {better}, %x, %y, {kind} : ({v}, {v}) -> {b}\n      \
             %equal = stablehlo.compare EQ, %x, %y, {kind} : ({v}, {v}) -> {b}\n      \
             %before = stablehlo.compare LT, %i, %j, SIGNED : ({i}, {i}) -> {b}\n      "
        );
        let (wins, ties) = if e.is_float() {
            put(
                &mut body,
                format_args!(
                    "%xnan = stablehlo.compare NE, %x, %x, {kind} : ({v}, {v}) -> {b}\n      \
                     %ynan = stablehlo.compare NE, %y, %y, {kind} : ({v}, {v}) -> {b}\n      \
                     %ynum = stablehlo.not %ynan : {b}\n      \
                     %only = stablehlo.and %xnan, %ynum : {b}\n      \
                     %both = stablehlo.and %xnan, %ynan : {b}\n      \
                     %wins = stablehlo.or %better, %only : {b}\n      \
                     %ties = stablehlo.or %equal, %both : {b}\n      "
                ),
            );
            ("%wins", "%ties")
        } else {
            ("%better", "%equal")
        };
        put(
            &mut body,
            format_args!(
                "%first = stablehlo.and {ties}, %before : {b}\n      \
                 %pick = stablehlo.or {wins}, %first : {b}\n      \
                 %v = stablehlo.select %pick, %x, %y : {b}, {v}\n      \
                 %k = stablehlo.select %pick, %i, %j : {b}, {i}\n      \
                 stablehlo.return %v, %k : {v}, {i}\n    }})"
            ),
        );
        let operands = [x.clone(), positions, init, first];
        let types = [Type::new(&shape, e), Type::new(&shape, index)];
        let results = self.op_many(
            &types,
            format_args!(
                "\"stablehlo.reduce\"({}) <{{dimensions = {}}}> {body} : ({}) -> ({})",
                List(&operands),
                Array(&[dim]),
                Types(&operands),
                List(&types)
            ),
        );
        let indices = self.convert(&results[1], ElementType::S64);
        (results[0].clone(), indices)
    }

    /// Join the elements under a window that slides over all dimensions. `padding` adds neutral elements. Sums and
    /// products of 16-bit floats are accumulated in `f32`.
    pub fn reduce_window(
        &mut self,
        x: &Value,
        kind: ReduceKind,
        window: &[usize],
        strides: &[usize],
        padding: &[(i64, i64)],
        base_dilation: &[usize],
        window_dilation: &[usize],
    ) -> Value {
        let name = "reduce_window";
        for (constraint, positive, field, values) in [
            ("C4", "C5", "window_dimensions", window),
            ("C6", "C7", "window_strides", strides),
            ("C8", "C9", "base_dilations", base_dilation),
            ("C10", "C11", "window_dilations", window_dilation),
        ] {
            assert!(values.len() == x.rank(), "{name} ({constraint}): {field} {values:?} does not fit {}", x.ty());
            assert!(!values.contains(&0), "{name} ({positive}): {field} {values:?} holds a 0");
        }
        assert!(padding.len() == x.rank(), "{name} (C12): padding {padding:?} does not fit {}", x.ty());
        check_kind("reduce_window (C13)", kind, x);
        let e = x.element();
        if kind.needs_wide_accumulator(e) {
            let wide = self.convert(x, ElementType::F32);
            let sum = self.reduce_window(&wide, kind, window, strides, padding, base_dilation, window_dilation);
            return self.convert(&sum, e);
        }
        let shape: Vec<usize> = (0..x.rank())
            .map(|d| {
                window_count(x.shape()[d], base_dilation[d], padding[d], window[d], window_dilation[d], strides[d])
            })
            .collect();
        let ty = Type::new(&shape, e);
        let init = self.identity(kind, e);
        let mut attributes = format!("window_dimensions = {}, window_strides = {}", Array(window), Array(strides));
        if base_dilation.iter().any(|&n| n != 1) {
            put(&mut attributes, format_args!(", base_dilations = {}", Array(base_dilation)));
        }
        if window_dilation.iter().any(|&n| n != 1) {
            put(&mut attributes, format_args!(", window_dilations = {}", Array(window_dilation)));
        }
        push_padding(&mut attributes, padding);
        self.op(
            &ty,
            format_args!(
                "\"stablehlo.reduce_window\"({x}, {init}) <{{{attributes}}}> {} : ({}, {}) -> {ty}",
                join(kind.op(), e),
                x.ty(),
                init.ty()
            ),
        )
    }

    /// Add each element of `source` where the greatest element of its window of `x` is: the gradient of max pooling.
    /// The first of equal elements counts, and NaN counts as greatest.
    pub fn select_and_scatter(
        &mut self,
        x: &Value,
        source: &Value,
        window: &[usize],
        strides: &[usize],
        padding: &[(i64, i64)],
    ) -> Value {
        let name = "select_and_scatter";
        assert!(x.element() == source.element(), "{name} (C1): {} and {} differ", x.ty(), source.ty());
        for (constraint, positive, field, values) in
            [("C4", "C5", "window_dimensions", window), ("C6", "C7", "window_strides", strides)]
        {
            assert!(values.len() == x.rank(), "{name} ({constraint}): {field} {values:?} does not fit {}", x.ty());
            assert!(!values.contains(&0), "{name} ({positive}): {field} {values:?} holds a 0");
        }
        assert!(padding.len() == x.rank(), "{name} (C8): padding {padding:?} does not fit {}", x.ty());
        let shape: Vec<usize> =
            (0..x.rank()).map(|d| window_count(x.shape()[d], 1, padding[d], window[d], 1, strides[d])).collect();
        assert!(source.shape() == shape, "{name} (C2): the source {} must have the shape {shape:?}", source.ty());
        let e = x.element();
        // The first element of a window stays while this is true, so `GE` keeps the first of equal elements.
        let (v, b) = (Type::new(&[], e), Type::new(&[], ElementType::Pred));
        let mut select = format!(
            "({{\n    ^bb0(%x: {v}, %y: {v}):\n      %p = stablehlo.compare GE, %x, %y, {} : ({v}, {v}) -> {b}\n      ",
            compare_type(e)
        );
        if e.is_float() {
            put(
                &mut select,
                format_args!(
                    "%n = stablehlo.compare NE, %x, %x, FLOAT : ({v}, {v}) -> {b}\n      \
                     %q = stablehlo.or %p, %n : {b}\n      stablehlo.return %q : {b}\n    }}"
                ),
            );
        } else {
            put(&mut select, format_args!("stablehlo.return %p : {b}\n    }}"));
        }
        let scatter = join("stablehlo.add", e);
        let mut attributes = format!("window_dimensions = {}, window_strides = {}", Array(window), Array(strides));
        push_padding(&mut attributes, padding);
        let zero = self.scalar(0.0, e);
        self.op(
            x.ty(),
            format_args!(
                "\"stablehlo.select_and_scatter\"({x}, {source}, {zero}) <{{{attributes}}}> {select}, {} : \
                 ({}, {}, {v}) -> {}",
                &scatter[1..],
                x.ty(),
                source.ty(),
                x.ty()
            ),
        )
    }

    /// Join each element with all before it along `dim`: `cumsum`, `cumprod`, `cummax`, `cummin`.
    pub fn cumulative(&mut self, x: &Value, kind: ReduceKind, dim: usize) -> Value {
        check_dims("reduce_window", x, &[dim]);
        let size = x.shape()[dim];
        if size <= 1 || x.ty().numel() == 0 {
            return x.clone();
        }
        // XLA recognizes a window of this form as a scan, which does not cost size² operations.
        let ones = vec![1; x.rank()];
        let (mut window, mut padding) = (ones.clone(), vec![(0, 0); x.rank()]);
        window[dim] = size;
        padding[dim] = (size as i64 - 1, 0);
        self.reduce_window(x, kind, &window, &ones, &padding, &ones, &ones)
    }

    /// Sort all operands along `dim` by the first operand. As in PyTorch, NaN counts as the greatest.
    pub fn sort(&mut self, operands: &[Value], dim: usize, descending: bool, stable: bool) -> Vec<Value> {
        let Some(key) = operands.first() else { panic!("sort (C1): there is nothing to sort") };
        for operand in operands {
            assert!(operand.shape() == key.shape(), "sort (C3): {} and {} differ in shape", key.ty(), operand.ty());
        }
        assert!(dim < key.rank(), "sort (C4): dimension {dim} is out of range for {}", key.ty());
        let e = key.element();
        assert!(!e.is_complex(), "sort (C5): {} has no order", e.mlir());
        let (v, b) = (Type::new(&[], e), Type::new(&[], ElementType::Pred));
        let mut body = format!("({{\n    ^bb0(%x: {v}, %y: {v}");
        for (i, operand) in operands.iter().enumerate().skip(1) {
            let ty = Type::new(&[], operand.element());
            put(&mut body, format_args!(", %x{i}: {ty}, %y{i}: {ty}"));
        }
        let before = if descending { "GT" } else { "LT" };
        put(
            &mut body,
            format_args!(
                "):\n      %p = stablehlo.compare {before}, %x, %y, {} : ({v}, {v}) -> {b}\n      ",
                compare_type(e)
            ),
        );
        if e.is_float() {
            let (nan, number) = if descending { ("x", "y") } else { ("y", "x") };
            put(
                &mut body,
                format_args!(
                    "%n = stablehlo.compare NE, %{nan}, %{nan}, FLOAT : ({v}, {v}) -> {b}\n      \
                     %m = stablehlo.compare EQ, %{number}, %{number}, FLOAT : ({v}, {v}) -> {b}\n      \
                     %q = stablehlo.and %n, %m : {b}\n      \
                     %r = stablehlo.or %p, %q : {b}\n      \
                     stablehlo.return %r : {b}\n    }})"
                ),
            );
        } else {
            put(&mut body, format_args!("stablehlo.return %p : {b}\n    }})"));
        }
        let types: Vec<Type> = operands.iter().map(|operand| operand.ty().clone()).collect();
        self.op_many(
            &types,
            format_args!(
                "\"stablehlo.sort\"({}) <{{dimension = {dim} : i64, is_stable = {stable}}}> {body} : ({}) -> ({})",
                List(operands),
                List(&types),
                List(&types)
            ),
        )
    }

    /// Return the `k` greatest elements of the last dimension, greatest first, and their indices as `S64`. Of equal
    /// elements the first comes first. NaN counts as greatest, and zero as greater than negative zero.
    pub fn top_k(&mut self, x: &Value, k: usize) -> (Value, Value) {
        let Some((&size, rest)) = x.shape().split_last() else { panic!("top_k: {} has no dimension", x.ty()) };
        assert!(k <= size, "top_k: {k} exceeds the last dimension of {}", x.ty());
        let shape = [rest, &[k]].concat();
        let types = [Type::new(&shape, x.element()), Type::new(&shape, ElementType::S32)];
        let results = self.op_many(&types, format_args!("chlo.top_k({x}, k = {k}) : {} -> ({})", x.ty(), List(&types)));
        let indices = self.convert(&results[1], ElementType::S64);
        (results[0].clone(), indices)
    }
}

/// The sizes that remain when `dims` are removed.
fn without(shape: &[usize], dims: &[usize]) -> Vec<usize> {
    (0..shape.len()).filter(|d| !dims.contains(d)).map(|d| shape[d]).collect()
}

/// Return the dimensions of `source` that form the reduced dimensions of `x`, a reshape of it. Return `None` if a
/// reduced dimension shares one with a dimension that is kept.
fn dims_before(source: &Value, x: &Value, dims: &[usize]) -> Option<Vec<usize>> {
    if x.ty().numel() == 0 {
        return None;
    }
    let (from, to) = (source.shape(), x.shape());
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < from.len() || j < to.len() {
        // Return the shortest runs of both shapes that have equal numbers of elements.
        let (first_i, first_j) = (i, j);
        let (mut n, mut m) = (1, 1);
        while i == first_i && j == first_j || n != m {
            if n <= m && i < from.len() {
                n *= from[i];
                i += 1;
            } else {
                m *= to[j];
                j += 1;
            }
        }
        let reduced = (first_j..j).filter(|&d| to[d] > 1 && dims.contains(&d)).count();
        if reduced > 0 && reduced < (first_j..j).filter(|&d| to[d] > 1).count() {
            return None;
        }
        if reduced > 0 {
            found.extend(first_i..i);
        }
    }
    Some(found)
}

fn check_dims(name: &str, x: &Value, dims: &[usize]) {
    for (i, &d) in dims.iter().enumerate() {
        assert!(d < x.rank(), "{name} (C4): dimension {d} is out of range for {}", x.ty());
        assert!(!dims[..i].contains(&d), "{name} (C5): {dims:?} names dimension {d} twice");
    }
}

fn check_kind(constraint: &str, kind: ReduceKind, x: &Value) {
    let e = x.element();
    let fits = match kind {
        ReduceKind::Add | ReduceKind::Mul => true,
        ReduceKind::Max | ReduceKind::Min => !e.is_complex(),
        ReduceKind::And | ReduceKind::Or => e.is_integer() || e == ElementType::Pred,
    };
    assert!(fits, "{constraint}: {kind:?} is not defined for {}", x.ty());
}

fn push_padding(attributes: &mut String, padding: &[(i64, i64)]) {
    if padding.iter().all(|&edges| edges == (0, 0)) {
        return;
    }
    attributes.push_str(", padding = dense<[");
    for (i, (low, high)) in padding.iter().enumerate() {
        put(attributes, format_args!("{}[{low}, {high}]", if i > 0 { ", " } else { "" }));
    }
    put(attributes, format_args!("]> : tensor<{}x2xi64>", padding.len()));
}
