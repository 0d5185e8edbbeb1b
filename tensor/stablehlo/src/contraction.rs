//! Matrix products and convolutions.

use crate::func::{List, put};
use crate::{ElementType, Func, Type, Value};

/// Geometry of a convolution. [`ConvDims::new`] makes one in the order batch, feature, spatial (NCHW, kernel OIHW).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConvDims {
    /// Step of the window, per spatial dimension.
    pub window_strides: Vec<usize>,
    /// Zeros before and after, per spatial dimension. Negative values crop.
    pub padding: Vec<(i64, i64)>,
    /// Distance between neighboring elements of the input. Above one for transposed convolution.
    pub lhs_dilation: Vec<usize>,
    /// Distance between neighboring elements of the kernel.
    pub rhs_dilation: Vec<usize>,
    /// Whether the kernel is flipped, per spatial dimension.
    pub window_reversal: Vec<bool>,
    /// Number of groups that the features are divided into.
    pub feature_group_count: usize,
    /// Number of groups that the batch is divided into.
    pub batch_group_count: usize,
    /// Batch dimension of the input.
    pub input_batch_dimension: usize,
    /// Feature dimension of the input.
    pub input_feature_dimension: usize,
    /// Dimensions of the input that the window moves over.
    pub input_spatial_dimensions: Vec<usize>,
    /// Dimension of the kernel that is paired with the input's features.
    pub kernel_input_feature_dimension: usize,
    /// Dimension of the kernel that gives the output's features.
    pub kernel_output_feature_dimension: usize,
    /// Dimensions of the kernel that form the window.
    pub kernel_spatial_dimensions: Vec<usize>,
    /// Batch dimension of the output.
    pub output_batch_dimension: usize,
    /// Feature dimension of the output.
    pub output_feature_dimension: usize,
    /// Spatial dimensions of the output.
    pub output_spatial_dimensions: Vec<usize>,
    /// `DEFAULT`, `HIGH` or `HIGHEST` for both operands. `None` is the precision of [`Func::set_precision`].
    pub precision: Option<&'static str>,
}

impl ConvDims {
    /// Stride one, no padding, no dilation, no groups, over `spatial` dimensions in batch, feature, spatial order.
    pub fn new(spatial: usize) -> ConvDims {
        let dims: Vec<usize> = (2..2 + spatial).collect();
        ConvDims {
            window_strides: vec![1; spatial],
            padding: vec![(0, 0); spatial],
            lhs_dilation: vec![1; spatial],
            rhs_dilation: vec![1; spatial],
            window_reversal: vec![false; spatial],
            feature_group_count: 1,
            batch_group_count: 1,
            input_batch_dimension: 0,
            input_feature_dimension: 1,
            input_spatial_dimensions: dims.clone(),
            kernel_output_feature_dimension: 0,
            kernel_input_feature_dimension: 1,
            kernel_spatial_dimensions: dims.clone(),
            output_batch_dimension: 0,
            output_feature_dimension: 1,
            output_spatial_dimensions: dims,
            precision: None,
        }
    }
}

/// Number of positions of a window (`convolution (C25)`, `reduce_window (C15)`).
pub(crate) fn window_count(
    size: usize,
    base_dilation: usize,
    padding: (i64, i64),
    window: usize,
    window_dilation: usize,
    stride: usize,
) -> usize {
    let dilate = |n: usize, by: usize| if n == 0 { 0 } else { ((n - 1) * by + 1) as i64 };
    let padded = padding.0 + dilate(size, base_dilation) + padding.1;
    let window = dilate(window, window_dilation);
    if padded <= 0 || window > padded { 0 } else { ((padded - window) / stride as i64 + 1) as usize }
}

impl Func {
    /// Multiply and sum over the dimension pairs `contract`, once for each element of the pairs `batch`. The result has
    /// the batch dimensions, then the other dimensions of `a`, then those of `b`. Its elements are `out`, which may be
    /// wider than the operands' type and is then also the accumulator. `precision` is `DEFAULT`, `HIGH` or `HIGHEST`.
    /// `None` is the precision of [`Func::set_precision`].
    pub fn dot_general(
        &mut self,
        a: &Value,
        b: &Value,
        batch: (&[usize], &[usize]),
        contract: (&[usize], &[usize]),
        out: ElementType,
        precision: Option<&'static str>,
    ) -> Value {
        let name = "dot_general";
        assert!(batch.0.len() == batch.1.len(), "{name} (C1): batch dimensions {batch:?} do not pair");
        assert!(contract.0.len() == contract.1.len(), "{name} (C2): contracting dimensions {contract:?} do not pair");
        let sides = [("C3", "C5, C6", a, batch.0, contract.0), ("C4", "C7, C8", b, batch.1, contract.1)];
        for (unique, range, x, batch, contract) in sides {
            let used = [batch, contract].concat();
            for (i, &d) in used.iter().enumerate() {
                assert!(!used[..i].contains(&d), "{name} ({unique}): dimension {d} of {} is named twice", x.ty());
                assert!(d < x.rank(), "{name} ({range}): dimension {d} is out of range for {}", x.ty());
            }
        }
        for (constraint, pairs) in [("C9", batch), ("C10", contract)] {
            for (&i, &j) in pairs.0.iter().zip(pairs.1) {
                assert!(
                    a.shape()[i] == b.shape()[j],
                    "{name} ({constraint}): dimension {i} of {} does not fit dimension {j} of {}",
                    a.ty(),
                    b.ty()
                );
            }
        }
        assert!(a.element() == b.element(), "{name} (C13): {} and {} differ in element type", a.ty(), b.ty());

        let mut shape: Vec<usize> = batch.0.iter().map(|&d| a.shape()[d]).collect();
        for (x, batch, contract) in [(a, batch.0, contract.0), (b, batch.1, contract.1)] {
            let rest = (0..x.rank()).filter(|d| !batch.contains(d) && !contract.contains(d));
            shape.extend(rest.map(|d| x.shape()[d]));
        }
        let ty = Type::new(&shape, out);
        let mut attributes = String::new();
        if !batch.0.is_empty() {
            put(&mut attributes, format_args!(", batching_dims = [{}] x [{}]", List(batch.0), List(batch.1)));
        }
        put(&mut attributes, format_args!(", contracting_dims = [{}] x [{}]", List(contract.0), List(contract.1)));
        if let Some(precision) = precision.or_else(|| self.product_precision(a.element())) {
            put(&mut attributes, format_args!(", precision = [{precision}, {precision}]"));
        }
        self.op(&ty, format_args!("stablehlo.dot_general {a}, {b}{attributes} : ({}, {}) -> {ty}", a.ty(), b.ty()))
    }

    /// Slide the kernel `w` over `x`.
    ///
    /// Negative padding is printed as a `stablehlo.pad` of its own: XLA:CPU computes wrong edge columns for a window
    /// that is cropped on one side and padded on the other.
    pub fn convolution(&mut self, x: &Value, w: &Value, dims: &ConvDims) -> Value {
        check_convolution(x, w, dims);
        let cropped: Vec<usize> =
            (0..dims.padding.len()).filter(|&i| dims.padding[i].0 < 0 || dims.padding[i].1 < 0).collect();
        if !cropped.is_empty() {
            let mut rest = dims.clone();
            let (mut low, mut high, mut interior) = (vec![0; x.rank()], vec![0; x.rank()], vec![0; x.rank()]);
            for i in cropped {
                let d = dims.input_spatial_dimensions[i];
                (low[d], high[d]) = dims.padding[i];
                interior[d] = dims.lhs_dilation[i] as i64 - 1;
                rest.padding[i] = (0, 0);
                rest.lhs_dilation[i] = 1;
            }
            let zero = self.scalar(0.0, x.element());
            let x = self.pad(x, &zero, &low, &high, &interior);
            return self.convolution(&x, w, &rest);
        }

        let mut shape = vec![0; x.rank()];
        shape[dims.output_batch_dimension] = x.shape()[dims.input_batch_dimension] / dims.batch_group_count;
        shape[dims.output_feature_dimension] = w.shape()[dims.kernel_output_feature_dimension];
        for (i, &d) in dims.output_spatial_dimensions.iter().enumerate() {
            shape[d] = window_count(
                x.shape()[dims.input_spatial_dimensions[i]],
                dims.lhs_dilation[i],
                dims.padding[i],
                w.shape()[dims.kernel_spatial_dimensions[i]],
                dims.rhs_dilation[i],
                dims.window_strides[i],
            );
        }
        let ty = Type::new(&shape, x.element());

        let input =
            layout('b', dims.input_batch_dimension, 'f', dims.input_feature_dimension, &dims.input_spatial_dimensions);
        let kernel = layout(
            'o',
            dims.kernel_output_feature_dimension,
            'i',
            dims.kernel_input_feature_dimension,
            &dims.kernel_spatial_dimensions,
        );
        let output = layout(
            'b',
            dims.output_batch_dimension,
            'f',
            dims.output_feature_dimension,
            &dims.output_spatial_dimensions,
        );
        let mut window = format!("stride = [{}], pad = [", List(&dims.window_strides));
        for (i, (low, high)) in dims.padding.iter().enumerate() {
            put(&mut window, format_args!("{}[{low}, {high}]", if i > 0 { ", " } else { "" }));
        }
        window.push(']');
        if dims.lhs_dilation.iter().any(|&n| n != 1) {
            put(&mut window, format_args!(", lhs_dilate = [{}]", List(&dims.lhs_dilation)));
        }
        if dims.rhs_dilation.iter().any(|&n| n != 1) {
            put(&mut window, format_args!(", rhs_dilate = [{}]", List(&dims.rhs_dilation)));
        }
        if dims.window_reversal.contains(&true) {
            put(&mut window, format_args!(", reverse = [{}]", List(&dims.window_reversal)));
        }
        let precision = match dims.precision.or_else(|| self.product_precision(x.element())) {
            Some(p) => format!(", precision_config = [#stablehlo<precision {p}>, #stablehlo<precision {p}>]"),
            None => String::new(),
        };
        self.op(
            &ty,
            format_args!(
                "stablehlo.convolution({x}, {w}) dim_numbers = [{input}]x[{kernel}]->[{output}], window = {{{window}}} \
                 {{batch_group_count = {} : i64, feature_group_count = {} : i64{precision}}} : ({}, {}) -> {ty}",
                dims.batch_group_count,
                dims.feature_group_count,
                x.ty(),
                w.ty()
            ),
        )
    }
}

/// Print the order of dimensions, `b, f, 0, 1`.
fn layout(first: char, first_at: usize, second: char, second_at: usize, spatial: &[usize]) -> String {
    let mut names = vec![String::new(); spatial.len() + 2];
    names[first_at].push(first);
    names[second_at].push(second);
    for (i, &d) in spatial.iter().enumerate() {
        names[d] = i.to_string();
    }
    names.join(", ")
}

fn check_convolution(x: &Value, w: &Value, dims: &ConvDims) {
    let name = "convolution";
    let rank = x.rank();
    assert!(rank >= 2 && rank == w.rank(), "{name} (C1): {} and {} differ in rank", x.ty(), w.ty());
    assert!(x.element() == w.element(), "{name} (C27): {} and {} differ in element type", x.ty(), w.ty());
    let spatial = rank - 2;
    let ConvDims { window_strides, padding, lhs_dilation, rhs_dilation, window_reversal, .. } = dims;
    let lengths = [
        ("C2", "window_strides", window_strides.len()),
        ("C4", "padding", padding.len()),
        ("C5", "lhs_dilation", lhs_dilation.len()),
        ("C7", "rhs_dilation", rhs_dilation.len()),
        ("C9", "window_reversal", window_reversal.len()),
        ("C12", "input_spatial_dimensions", dims.input_spatial_dimensions.len()),
        ("C17", "kernel_spatial_dimensions", dims.kernel_spatial_dimensions.len()),
        ("C19", "output_spatial_dimensions", dims.output_spatial_dimensions.len()),
    ];
    for (constraint, field, length) in lengths {
        assert!(length == spatial, "{name} ({constraint}): {field} has {length} entries, but must have {spatial}");
    }
    for (constraint, field, values) in [
        ("C3", "window_strides", window_strides),
        ("C6", "lhs_dilation", lhs_dilation),
        ("C8", "rhs_dilation", rhs_dilation),
    ] {
        assert!(!values.contains(&0), "{name} ({constraint}): {field} {values:?} holds a 0");
    }
    for (constraint, first, second, others) in [
        ("C13", dims.input_batch_dimension, dims.input_feature_dimension, &dims.input_spatial_dimensions),
        (
            "C18",
            dims.kernel_input_feature_dimension,
            dims.kernel_output_feature_dimension,
            &dims.kernel_spatial_dimensions,
        ),
        ("C20", dims.output_batch_dimension, dims.output_feature_dimension, &dims.output_spatial_dimensions),
    ] {
        let mut all = [&[first, second], &others[..]].concat();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..rank), "{name} ({constraint}): {all:?} does not name every dimension once");
    }
    let (groups, batch_groups) = (dims.feature_group_count, dims.batch_group_count);
    assert!(groups > 0, "{name} (C21): feature_group_count is 0");
    assert!(batch_groups > 0, "{name} (C22): batch_group_count is 0");
    assert!(groups == 1 || batch_groups == 1, "{name} (C23): features and batch are both grouped");
    let batch = x.shape()[dims.input_batch_dimension];
    let features = x.shape()[dims.input_feature_dimension];
    let kernel_in = w.shape()[dims.kernel_input_feature_dimension];
    let kernel_out = w.shape()[dims.kernel_output_feature_dimension];
    assert!(
        batch.is_multiple_of(batch_groups),
        "{name} (C10): a batch of {batch} does not divide into {batch_groups} groups"
    );
    assert!(features.is_multiple_of(groups), "{name} (C11): {features} features do not divide into {groups} groups");
    assert!(
        kernel_in == features / groups,
        "{name} (C14): the kernel {} takes {kernel_in} features, but {} has {} a group",
        w.ty(),
        x.ty(),
        features / groups
    );
    assert!(
        kernel_out.is_multiple_of(batch_groups),
        "{name} (C15): {kernel_out} features do not divide into {batch_groups} groups"
    );
    assert!(
        kernel_out.is_multiple_of(groups),
        "{name} (C16): {kernel_out} features do not divide into {groups} groups"
    );
}
