//! Operations that move elements without computing.

use crate::func::{List, Types, put};
use crate::{Func, Type, Value};

impl Func {
    /// The same elements in row-major order under another shape.
    pub fn reshape(&mut self, x: &Value, shape: &[usize]) -> Value {
        if x.shape() == shape {
            return x.clone();
        }
        let ty = Type::new(shape, x.element());
        assert!(ty.numel() == x.ty().numel(), "reshape (C2): {} and {ty} differ in size", x.ty());
        let y = self.op(&ty, format_args!("stablehlo.reshape {x} : ({}) -> {ty}", x.ty()));
        self.note_reshape(&y, x);
        y
    }

    /// Reorder the dimensions: dimension `i` of the result is dimension `perm[i]` of `x`.
    pub fn transpose(&mut self, x: &Value, perm: &[usize]) -> Value {
        let mut sorted = perm.to_vec();
        sorted.sort_unstable();
        assert!(
            sorted.iter().copied().eq(0..x.rank()),
            "transpose (C2): {perm:?} is not a permutation of the dimensions of {}",
            x.ty()
        );
        if perm.is_sorted() {
            return x.clone();
        }
        let shape: Vec<usize> = perm.iter().map(|&d| x.shape()[d]).collect();
        let ty = Type::new(&shape, x.element());
        self.op(&ty, format_args!("stablehlo.transpose {x}, dims = [{}] : ({}) -> {ty}", List(perm), x.ty()))
    }

    /// Place dimension `i` of `x` at dimension `dims[i]` of `shape`, and repeat it along the other dimensions and along
    /// dimensions of size one.
    pub fn broadcast_in_dim(&mut self, x: &Value, shape: &[usize], dims: &[usize]) -> Value {
        assert!(dims.len() == x.rank(), "broadcast_in_dim (C2): {dims:?} does not fit the rank of {}", x.ty());
        for (i, &d) in dims.iter().enumerate() {
            assert!(d < shape.len(), "broadcast_in_dim (C3): dimension {d} is out of range for {shape:?}");
            assert!(!dims[..i].contains(&d), "broadcast_in_dim (C4): {dims:?} names dimension {d} twice");
            let size = x.shape()[i];
            assert!(
                size == 1 || size == shape[d],
                "broadcast_in_dim (C5): dimension {i} of {} does not fit dimension {d} of {shape:?}",
                x.ty()
            );
        }
        if x.shape() == shape && dims.is_sorted() {
            return x.clone();
        }
        let ty = Type::new(shape, x.element());
        self.op(&ty, format_args!("stablehlo.broadcast_in_dim {x}, dims = [{}] : ({}) -> {ty}", List(dims), x.ty()))
    }

    /// Broadcast by the rule of NumPy and PyTorch: shapes are aligned at their last dimension.
    pub fn broadcast_to(&mut self, x: &Value, shape: &[usize]) -> Value {
        assert!(x.rank() <= shape.len(), "broadcast_in_dim (C3): {} has more dimensions than {shape:?}", x.ty());
        let dims: Vec<usize> = (shape.len() - x.rank()..shape.len()).collect();
        self.broadcast_in_dim(x, shape, &dims)
    }

    /// Take elements `start, start + stride, ...` below `limit` along every dimension.
    pub fn slice(&mut self, x: &Value, start: &[usize], limit: &[usize], stride: &[usize]) -> Value {
        let rank = x.rank();
        assert!(
            start.len() == rank && limit.len() == rank && stride.len() == rank,
            "slice (C2): {start:?}, {limit:?}, {stride:?} do not fit the rank of {}",
            x.ty()
        );
        let mut ranges = String::new();
        let mut shape = Vec::with_capacity(rank);
        for d in 0..rank {
            assert!(
                start[d] <= limit[d] && limit[d] <= x.shape()[d],
                "slice (C3): {}:{} is out of range for dimension {d} of {}",
                start[d],
                limit[d],
                x.ty()
            );
            assert!(stride[d] > 0, "slice (C4): the stride of dimension {d} is 0");
            shape.push((limit[d] - start[d]).div_ceil(stride[d]));
            put(&mut ranges, format_args!("{}{}:{}", if d > 0 { ", " } else { "" }, start[d], limit[d]));
            if stride[d] > 1 {
                put(&mut ranges, format_args!(":{}", stride[d]));
            }
        }
        if shape == x.shape() {
            return x.clone();
        }
        let ty = Type::new(&shape, x.element());
        self.op(&ty, format_args!("stablehlo.slice {x} [{ranges}] : ({}) -> {ty}", x.ty()))
    }

    /// Take elements `start..limit` of dimension `dim`, and all of the other dimensions.
    pub fn slice_dim(&mut self, x: &Value, dim: usize, start: usize, limit: usize) -> Value {
        assert!(dim < x.rank(), "slice (C2): dimension {dim} is out of range for {}", x.ty());
        let mut starts = vec![0; x.rank()];
        let mut limits = x.shape().to_vec();
        (starts[dim], limits[dim]) = (start, limit);
        self.slice(x, &starts, &limits, &vec![1; x.rank()])
    }

    /// Put `value` before (`low`), after (`high`) and between (`interior`) the elements. A negative edge crops.
    pub fn pad(&mut self, x: &Value, value: &Value, low: &[i64], high: &[i64], interior: &[i64]) -> Value {
        let rank = x.rank();
        assert!(
            value.rank() == 0 && value.element() == x.element(),
            "pad (C1): the padding value is {}, but must be a scalar of the elements of {}",
            value.ty(),
            x.ty()
        );
        assert!(
            low.len() == rank && high.len() == rank && interior.len() == rank,
            "pad (C2): {low:?}, {high:?}, {interior:?} do not fit the rank of {}",
            x.ty()
        );
        assert!(interior.iter().all(|&i| i >= 0), "pad (C3): the interior padding {interior:?} is negative");
        if [low, high, interior].iter().all(|amounts| amounts.iter().all(|&n| n == 0)) {
            return x.clone();
        }
        let shape: Vec<usize> = (0..rank)
            .map(|d| {
                let size = x.shape()[d] as i64;
                usize::try_from(low[d] + size + (size - 1).max(0) * interior[d] + high[d]).unwrap_or_else(|_| {
                    panic!("pad (C4): {} and {} crop more than dimension {d} of {} has", low[d], high[d], x.ty())
                })
            })
            .collect();
        let ty = Type::new(&shape, x.element());
        self.op(
            &ty,
            format_args!(
                "stablehlo.pad {x}, {value}, low = [{}], high = [{}], interior = [{}] : ({}, {}) -> {ty}",
                List(low),
                List(high),
                List(interior),
                x.ty(),
                value.ty()
            ),
        )
    }

    /// Join tensors along `dim`. The other dimensions agree.
    pub fn concatenate(&mut self, xs: &[Value], dim: usize) -> Value {
        let Some(first) = xs.first() else { panic!("concatenate (C3): there is nothing to join") };
        assert!(dim < first.rank(), "concatenate (C4): dimension {dim} is out of range for {}", first.ty());
        let mut shape = first.shape().to_vec();
        shape[dim] = 0;
        for x in xs {
            assert!(x.element() == first.element(), "concatenate (C1): {} and {} differ", first.ty(), x.ty());
            let fits = x.rank() == first.rank() && (0..x.rank()).all(|d| d == dim || x.shape()[d] == first.shape()[d]);
            assert!(fits, "concatenate (C2): {} and {} differ beside dimension {dim}", first.ty(), x.ty());
            shape[dim] += x.shape()[dim];
        }
        if let [only] = xs {
            return only.clone();
        }
        let ty = Type::new(&shape, first.element());
        self.op(&ty, format_args!("stablehlo.concatenate {}, dim = {dim} : ({}) -> {ty}", List(xs), Types(xs)))
    }

    /// Reverse the order of the elements along `dims`.
    pub fn reverse(&mut self, x: &Value, dims: &[usize]) -> Value {
        for (i, &d) in dims.iter().enumerate() {
            assert!(!dims[..i].contains(&d), "reverse (C2): {dims:?} names dimension {d} twice");
            assert!(d < x.rank(), "reverse (C3): dimension {d} is out of range for {}", x.ty());
        }
        if dims.iter().all(|&d| x.shape()[d] <= 1) {
            return x.clone();
        }
        self.op(x.ty(), format_args!("stablehlo.reverse {x}, dims = [{}] : {}", List(dims), x.ty()))
    }

    /// Take a window of `sizes` at a place that is known at run time. Places that reach over the edge are moved
    /// inwards.
    pub fn dynamic_slice(&mut self, x: &Value, starts: &[Value], sizes: &[usize]) -> Value {
        assert!(
            starts.len() == x.rank() && sizes.len() == x.rank(),
            "dynamic_slice (C2): {} starts and sizes {sizes:?} do not fit the rank of {}",
            starts.len(),
            x.ty()
        );
        check_starts("dynamic_slice (C3)", starts);
        assert!(
            sizes.iter().zip(x.shape()).all(|(size, have)| size <= have),
            "dynamic_slice (C4): sizes {sizes:?} exceed {}",
            x.ty()
        );
        if sizes == x.shape() {
            return x.clone();
        }
        let ty = Type::new(sizes, x.element());
        let operands = [std::slice::from_ref(x), starts].concat();
        self.op(
            &ty,
            format_args!(
                "stablehlo.dynamic_slice {}, sizes = [{}] : ({}) -> {ty}",
                List(&operands),
                List(sizes),
                Types(&operands)
            ),
        )
    }

    /// Replace a window of `x` by `update`, at a place that is known at run time. Places that reach over the edge are
    /// moved inwards.
    pub fn dynamic_update_slice(&mut self, x: &Value, update: &Value, starts: &[Value]) -> Value {
        let name = "dynamic_update_slice";
        assert!(update.element() == x.element(), "{name} (C2): {} does not fit {}", update.ty(), x.ty());
        assert!(update.rank() == x.rank(), "{name} (C3): {} does not fit {}", update.ty(), x.ty());
        assert!(starts.len() == x.rank(), "{name} (C4): {} starts do not fit {}", starts.len(), x.ty());
        check_starts("dynamic_update_slice (C5)", starts);
        assert!(
            update.shape().iter().zip(x.shape()).all(|(size, have)| size <= have),
            "{name} (C6): {} exceeds {}",
            update.ty(),
            x.ty()
        );
        if update.shape() == x.shape() {
            return update.clone();
        }
        let operands = [&[x.clone(), update.clone()], starts].concat();
        self.op(x.ty(), format_args!("stablehlo.{name} {} : ({}) -> {}", List(&operands), Types(&operands), x.ty()))
    }
}

fn check_starts(constraint: &str, starts: &[Value]) {
    for start in starts {
        assert!(
            start.ty() == starts[0].ty() && start.rank() == 0 && start.element().is_integer(),
            "{constraint}: the start {} must be an integer scalar like the others",
            start.ty()
        );
    }
}
