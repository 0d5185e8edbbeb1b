//! THE TABLE. An op exists when it has a line here; nothing else registers it.
//!
//! [`Prim`] lists the nodes of traces and tapes, in their tiers (see [`crate::op`]). [`FAMILIES`] lists the rows: the
//! public functions, with schemas and samples, that are made of them.

pub mod activation;
pub mod aten;
pub mod attention;
pub mod collective;
pub mod complex;
pub mod concat;
pub mod conv;
pub mod convert;
pub mod creation;
pub mod distance;
pub mod dropout;
pub mod einsum;
pub mod embedding;
pub mod foreach;
pub mod image;
pub mod indexing;
pub mod inline;
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod optim;
pub mod pad;
pub mod pointwise;
pub mod pool;
mod quantize;
pub mod random;
pub mod reduce;
pub mod rnn;
pub mod scan;
pub mod shape;
pub mod signal;
pub mod sort;
pub mod statistics;

use crate::axes::Axes;
use crate::lower::kernel_call::Entry;
use crate::op::{self, Attributes, Facts, Func, Grads, Layout, Outs, Saved, Saves, Value, Values};
use crate::schema::{Aliasing, Arg, Args, Ret, Row, Schema};
use crate::{DType, Error, Meta, Result, Tensor, lower};

/// The result of a row with one tensor.
fn ok(y: Tensor) -> Result<Ret> {
    Ok(Ret::Tensor(y))
}
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Define the enum of nodes, and methods that call each node's rules through its tier: `op::prim`, `op::view` or
/// `op::fused`. Ops with many attributes are boxed, since every call moves an op by value.
macro_rules! op_table {
    (inline { $($tier:ident $name:ident = $ty:path;)* } boxed { $($btier:ident $bname:ident = $bty:path;)* }) => {
        /// Every node of a trace or tape, attributes included. `Hash` and `Eq` are the key of the compilation cache.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Prim {$(
            #[allow(missing_docs)] // documented at the type it holds
            $name($ty),
        )* $(
            #[allow(missing_docs)]
            $bname(Box<$bty>)
        ),*}

        impl Prim {
            /// Names of all nodes with their tiers, for tests that check which nodes the samples reach.
            pub const NODES: &'static [(&'static str, &'static str)] = &[
                $((stringify!($name), stringify!($tier)),)* $((stringify!($bname), stringify!($btier))),*
            ];
            /// The variant's name.
            pub fn node(&self) -> &'static str {
                match self { $(Prim::$name(_) => stringify!($name),)* $(Prim::$bname(_) => stringify!($bname)),* }
            }
            /// Name in traces and errors: the kind, if the node has one.
            pub fn name(&self) -> &'static str {
                match self { $(Prim::$name(o) => op::$tier::label(o),)*
                    $(Prim::$bname(o) => op::$btier::label(&**o)),* }
            }
            /// The name in CamelCase, for `grad_fn` names.
            pub fn backward_name(&self) -> String {
                if let Some((space, op)) = self.name().split_once("::") {
                    return format!("GeneratedBackwardFor_{space}_{op}_default");
                }
                self.name().split('_').map(|w| w[..1.min(w.len())].to_uppercase() + &w[1.min(w.len())..]).collect()
            }
            /// How the strides of the results follow from those of the operands.
            pub(crate) fn strides(&self) -> op::Strides {
                match self { $(Prim::$name(o) => op::$tier::strides(o),)*
                    $(Prim::$bname(o) => op::$btier::strides(&**o)),* }
            }
            /// Facts about this kind of node.
            #[inline]
            pub fn facts(&self) -> &'static Facts {
                match self { $(Prim::$name(o) => op::$tier::facts(o),)*
                    $(Prim::$bname(o) => op::$btier::facts(&**o)),* }
            }
            /// The attributes as data; empty for most ops.
            pub fn attributes(&self) -> Attributes {
                match self { $(Prim::$name(o) => op::$tier::attributes(o),)*
                    $(Prim::$bname(o) => op::$btier::attributes(&**o)),* }
            }
            /// How the dimensions of the operands `x` and the results `y` correspond. See [`crate::axes`].
            pub fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
                match self { $(Prim::$name(o) => op::$tier::axes(o, x, y),)*
                    $(Prim::$bname(o) => op::$btier::axes(&**o, x, y)),* }
            }
            /// The same op for operands and results of other sizes, for its call on a part of an axis.
            pub fn resized(&self, x: &[Meta], y: &[Meta]) -> Prim {
                match self { $(Prim::$name(o) => Prim::$name(op::$tier::resized(o, x, y)),)*
                    $(Prim::$bname(o) => Prim::$bname(Box::new(op::$btier::resized(&**o, x, y)))),* }
            }
            /// Number of outputs.
            pub fn outs(&self) -> usize {
                match self { $(Prim::$name(o) => op::$tier::outs(o),)* $(Prim::$bname(o) => op::$btier::outs(&**o)),* }
            }
            /// Which outputs carry a gradient, as a bit mask.
            pub fn differentiable_outputs(&self) -> u64 {
                match self { $(Prim::$name(o) => op::$tier::differentiable(o),)*
                    $(Prim::$bname(o) => op::$btier::differentiable(&**o)),* }
            }
            /// Whether other ops express it.
            pub fn is_fused(&self) -> bool {
                match self { $(Prim::$name(_) => op::$tier::IS_FUSED,)* $(Prim::$bname(_) => op::$btier::IS_FUSED),* }
            }
            /// Whether the result is a view of the input.
            pub fn is_view(&self) -> bool {
                match self { $(Prim::$name(_) => op::$tier::IS_VIEW,)* $(Prim::$bname(_) => op::$btier::IS_VIEW),* }
            }
            /// Sizes, dtype and device of output 0.
            ///
            /// # Errors
            /// When the op does not accept these inputs.
            #[inline]
            pub fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
                match self { $(Prim::$name(o) => op::$tier::infer(o, x),)*
                    $(Prim::$bname(o) => op::$btier::infer(&**o, x)),* }
            }
            pub(crate) fn infer_extra(&self, x: &[&Tensor], first: &Meta, i: usize) -> Meta {
                match self { $(Prim::$name(o) => op::$tier::infer_extra(o, x, first, i),)*
                    $(Prim::$bname(o) => op::$btier::infer_extra(&**o, x, first, i)),* }
            }
            /// Fill the outputs on `cpu`.
            ///
            /// # Errors
            /// When values are wrong, such as an index out of range.
            #[inline]
            pub fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
                match self { $(Prim::$name(o) => op::$tier::kernel(o, x, y),)*
                    $(Prim::$bname(o) => op::$btier::kernel(&**o, x, y)),* }
            }
            /// Whether `cpu` runs it without expanding.
            #[inline]
            pub fn has_kernel(&self) -> bool {
                match self { $(Prim::$name(o) => op::$tier::has_kernel(o),)*
                    $(Prim::$bname(o) => op::$btier::has_kernel(&**o)),* }
            }
            /// Whether it is lowered without expanding.
            #[inline]
            pub fn has_lower(&self, x: &[&Tensor]) -> bool {
                match self { $(Prim::$name(o) => op::$tier::has_lower(o, x),)*
                    $(Prim::$bname(o) => op::$btier::has_lower(&**o, x)),* }
            }
            /// Whether it has a gradient without expanding.
            #[inline]
            pub fn has_vjp(&self) -> bool {
                match self { $(Prim::$name(o) => op::$tier::has_vjp(o),)*
                    $(Prim::$bname(o) => op::$btier::has_vjp(&**o)),* }
            }
            /// StableHLO spelling.
            pub fn lower(&self, f: &mut Func, x: &[Value], y: &[Meta]) -> Values {
                match self { $(Prim::$name(o) => op::$tier::lower(o, f, x, y),)*
                    $(Prim::$bname(o) => op::$btier::lower(&**o, f, x, y)),* }
            }
            /// Gradients of the inputs.
            ///
            /// # Errors
            /// The errors of the ops that it consists of.
            pub fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
                match self { $(Prim::$name(o) => op::$tier::vjp(o, s, g),)*
                    $(Prim::$bname(o) => op::$btier::vjp(&**o, s, g)),* }
            }
            /// Inputs and outputs that `vjp` reads.
            #[inline]
            pub fn saves(&self, needs: u64) -> Saves {
                match self { $(Prim::$name(o) => op::$tier::saves(o, needs),)*
                    $(Prim::$bname(o) => op::$btier::saves(&**o, needs)),* }
            }
            /// The meaning of a fused op.
            ///
            /// # Errors
            /// The errors of the ops that it consists of.
            pub fn expand(&self, x: &[&Tensor]) -> Result<Outs> {
                match self { $(Prim::$name(o) => op::$tier::expand(o, x),)*
                    $(Prim::$bname(o) => op::$btier::expand(&**o, x)),* }
            }
            pub(crate) fn view_dtype(&self, x: DType) -> DType {
                match self { $(Prim::$name(o) => op::$tier::view_dtype(o, x),)*
                    $(Prim::$bname(o) => op::$btier::view_dtype(&**o, x)),* }
            }
            /// The layout of a view, for a layout of its input.
            ///
            /// # Errors
            /// When no strides can describe the layout.
            ///
            /// # Panics
            /// For an op that is no view.
            pub fn layout(&self, x: &Layout) -> Result<Layout> {
                match self { $(Prim::$name(o) => op::$tier::layout(o, x),)*
                    $(Prim::$bname(o) => op::$btier::layout(&**o, x)),* }
            }
            pub(crate) fn write_back(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
                match self { $(Prim::$name(o) => op::$tier::write_back(o, x, y),)*
                    $(Prim::$bname(o) => op::$btier::write_back(&**o, x, y)),* }
            }
        }
    };
}

op_table! {
    inline {
        prim  Unary = pointwise::Unary;
        prim  Binary = pointwise::Binary;
        prim  Power = pointwise::Power;
        prim  SmallDivisor = pointwise::SmallDivisor;
        prim  Compare = pointwise::Compare;
        prim  Select = pointwise::Select;
        prim  Cast = convert::Cast;
        prim  Copy = convert::Copy;
        prim  Fill = creation::Fill;
        prim  Iota = creation::Iota;
        prim  Cat = concat::Cat;
        prim  Stack = concat::Stack;
        prim  Flip = concat::Flip;
        prim  SliceUpdate = pad::SliceUpdate;
        prim  Reduce = reduce::Reduce;
        prim  ArgReduce = reduce::ArgReduce;
        prim  Scan = scan::Scan;
        prim  CumExtreme = scan::CumExtreme;
        prim  Dot = matmul::Dot;
        prim  Fft = signal::Fft;
        prim  Gather = indexing::Gather;
        prim  Scatter = indexing::Scatter;
        prim  IndexSelect = indexing::IndexSelect;
        prim  IndexAdd = indexing::IndexAdd;
        prim  Index = indexing::Index;
        prim  IndexPut = indexing::IndexPut;
        prim  Sort = sort::Sort;
        prim  TopK = sort::TopK;
        prim  Pick = sort::Pick;
        prim  RandomBits = random::RandomBits;
        prim  Rejection = random::Rejection;
        prim  DirichletGrad = random::DirichletGrad;
        prim  Pathwise = random::Pathwise;
        prim  Trellis = loss::Trellis;
        prim  Frexp = pointwise::Frexp;
        prim  Inline = inline::Inline;
        view  Permute = shape::Permute;
        view  Expand = shape::Expand;
        view  Slice = shape::Slice;
        view  Reshape = shape::Reshape;
        view  Bits = shape::Bits;
        view  AsReal = complex::AsReal;
        view  AsComplex = complex::AsComplex;
        view  Conj = complex::Conj;
        view  Negative = complex::Negative;
        fused Barrier = convert::Barrier;
        fused Linear = matmul::Linear;
        fused Addmm = matmul::Addmm;
        fused Grouped = matmul::Grouped;
        fused ThresholdBackward = activation::ThresholdBackward;
        fused Gelu = activation::Gelu;
        fused GeluBackward = activation::GeluBackward;
        fused Silu = activation::Silu;
        fused SiluBackward = activation::SiluBackward;
        fused Spread = reduce::Spread;
        fused Softmax = norm::Softmax;
        fused SoftmaxBackward = norm::SoftmaxBackward;
        fused BatchNorm = norm::BatchNorm;
        fused BatchNormBackward = norm::BatchNormBackward;
        fused CrossEntropy = loss::CrossEntropy;
        fused CrossEntropyBackward = loss::CrossEntropyBackward;
        fused CtcLoss = loss::CtcLoss;
        fused CtcLossBackward = loss::CtcLossBackward;
        fused Embedding = embedding::Embedding;
        fused Attention = attention::Attention;
        fused AttentionBackward = attention::AttentionBackward;
        fused Recurrence = rnn::Recurrence;
        fused RecurrenceBackward = rnn::RecurrenceBackward;
        fused CDist = distance::CDist;
        fused GridSample = image::GridSample;
        fused GridSampleBackward = image::GridSampleBackward;
        fused AdamW = optim::AdamW;
        fused Sgd = optim::Sgd;
        fused SolveTriangular = linalg::SolveTriangular;
        fused CholeskySolve = linalg::CholeskySolve;
        fused Solve = linalg::Solve;
        fused Inverse = linalg::Inverse;
        fused Det = linalg::Det;
        fused Slogdet = linalg::Slogdet;
        fused Cholesky = linalg::Cholesky;
        fused LuFactor = linalg::LuFactor;
        fused Permutation = linalg::Permutation;
        fused Geqrf = linalg::Geqrf;
        fused Qr = linalg::Qr;
        fused Eigh = linalg::Eigh;
        fused Eig = linalg::Eig;
        fused Svd = linalg::Svd;
        fused Pinv = linalg::Pinv;
        fused LdlFactor = linalg::LdlFactor;
        fused LdlSolve = linalg::LdlSolve;
        fused MatrixExp = linalg::MatrixExp;
    }
    boxed {
        fused LayerNormBackward = norm::LayerNormBackward;
        fused LayerNorm = norm::LayerNorm;
        prim  Pad = pad::Pad;
        prim  Conv = conv::Conv;
        prim  MaxPool = pool::MaxPool;
        prim  MaxPoolBackward = pool::MaxPoolBackward;
        prim  Resample = image::Resample;
        prim  Im2Col = image::Im2Col;
        prim  Col2Im = image::Col2Im;
        prim  AvgPool = pool::AvgPool;
        prim  AvgPoolBackward = pool::AvgPoolBackward;
        prim  Collective = collective::Collective;
        view  AsStrided = shape::AsStrided;
        fused ConvInputGrad = conv::ConvInputGrad;
        fused ConvWeightGrad = conv::ConvWeightGrad;
    }
}

/// Rows that belong together, with a rule that they share.
pub struct Family {
    /// The name under which tests and documentation group ops.
    pub name: &'static str,
    /// The rows.
    pub rows: &'static [Row],
    is_elementwise: bool,
}

impl Family {
    const fn new(name: &'static str, rows: &'static [Row]) -> Family {
        Family { name, rows, is_elementwise: false }
    }
    /// A family whose results have each element from the operands' elements at the same place.
    const fn elementwise(name: &'static str, rows: &'static [Row]) -> Family {
        Family { name, rows, is_elementwise: true }
    }
    /// The memory that the operands of one of its rows may share with `out`.
    pub fn out_aliasing(&self, row: &Row) -> Aliasing {
        let default = if self.is_elementwise { Aliasing::InStep } else { Aliasing::Allowed };
        row.out_aliasing.unwrap_or(default)
    }
}

/// The rows of all public functions, by family.
pub const FAMILIES: &[Family] = &[
    Family::elementwise("pointwise", pointwise::UNARY_ROWS),
    Family::elementwise("pointwise", pointwise::UNARY_ALIAS_ROWS),
    Family::elementwise("pointwise", pointwise::BINARY_ROWS),
    Family::elementwise("pointwise", pointwise::COMPARE_ROWS),
    Family::elementwise("pointwise", pointwise::ARITHMETIC_ROWS),
    Family::elementwise("pointwise", pointwise::ROUND_ROWS),
    Family::elementwise("pointwise", pointwise::SELECT_ROWS),
    Family::elementwise("special", pointwise::SPECIAL_UNARY_ROWS),
    Family::elementwise("special", pointwise::SPECIAL_I0_ROWS),
    Family::elementwise("special", pointwise::SPECIAL_BINARY_ROWS),
    Family::elementwise("special", pointwise::SPECIAL_ROWS),
    Family::new("rearrange", shape::REARRANGE_ROWS),
    Family::elementwise("activation", activation::ROWS),
    Family::elementwise("clip", pointwise::CLIP_ROWS),
    Family::elementwise("blend", pointwise::LERP_ROWS),
    Family::elementwise("close", pointwise::CLOSE_ROWS),
    Family::new("convert", convert::ROWS),
    Family::new("complex", complex::ROWS),
    Family::new("creation", creation::ROWS),
    Family::new("creation", creation::RANGE_ROWS),
    Family::new("creation", creation::LAYOUT_ROWS),
    Family::new("creation", creation::FILL_ROWS),
    Family::new("random", random::ROWS),
    Family::new("random", random::REJECTION_ROWS),
    Family::new("shape", shape::ROWS),
    Family::new("shape", shape::COPY_ROWS),
    Family::new("concat", concat::ROWS),
    Family::new("pad", pad::ROWS),
    Family::new("reduce", reduce::ROWS),
    Family::new("scan", scan::ROWS),
    Family::new("sort", sort::ROWS),
    Family::new("sort", sort::UNIQUE_ROWS),
    Family::new("sort", sort::SEARCH_ROWS),
    Family::new("sort", sort::COUNT_ROWS),
    Family::new("indexing", indexing::gather::ROWS),
    Family::new("indexing", indexing::index_select::ROWS),
    Family::new("indexing", indexing::index::ROWS),
    Family::new("indexing", indexing::mask::ROWS),
    Family::new("indexing", indexing::take::ROWS),
    Family::new("indexing", indexing::classes::ROWS),
    Family::new("indexing", indexing::triangle::ROWS),
    Family::new("matmul", matmul::ROWS),
    Family::new("einsum", einsum::ROWS),
    Family::new("linalg", linalg::products::ROWS),
    Family::new("linalg", linalg::norm::ROWS),
    Family::new("linalg", linalg::cholesky::ROWS),
    Family::new("linalg", linalg::lu::ROWS),
    Family::new("linalg", linalg::triangular::ROWS),
    Family::new("linalg", linalg::solve::ROWS),
    Family::new("linalg", linalg::inverse::ROWS),
    Family::new("linalg", linalg::ldl::ROWS),
    Family::new("linalg", linalg::determinant::ROWS),
    Family::new("linalg", linalg::qr::ROWS),
    Family::new("linalg", linalg::eigh::ROWS),
    Family::new("linalg", linalg::eig::ROWS),
    Family::new("linalg", linalg::svd::ROWS),
    Family::new("linalg", linalg::pinv::ROWS),
    Family::new("linalg", linalg::rank::ROWS),
    Family::new("linalg", linalg::cond::ROWS),
    Family::new("linalg", linalg::lstsq::ROWS),
    Family::new("linalg", linalg::matrix_exp::ROWS),
    Family::new("linalg", linalg::sqrth::ROWS),
    Family::new("linalg", linalg::polar::ROWS),
    Family::new("linalg", linalg::tensor::ROWS),
    Family::new("linalg", linalg::norm::NUCLEAR_ROWS),
    Family::elementwise("pointwise", pointwise::FREXP_ROWS),
    Family::new("statistics", statistics::ROWS),
    Family::new("creation", signal::WINDOW_ROWS),
    Family::new("conv", conv::ROWS),
    Family::new("fft", signal::FFT_ROWS),
    Family::new("fft", signal::STFT_ROWS),
    Family::new("pool", pool::ROWS),
    Family::new("pool", pool::BACKWARD_ROWS),
    Family::new("resample", image::RESAMPLE_ROWS),
    Family::new("grid", image::GRID_ROWS),
    Family::new("image", image::COLUMN_ROWS),
    Family::new("fractional_pool", pool::FRACTIONAL_ROWS),
    Family::new("norm", norm::ROWS),
    Family::new("softmax", norm::SOFTMAX_ROWS),
    Family::new("dropout", dropout::ROWS),
    Family::new("quantize", quantize::ROWS),
    Family::new("embedding", embedding::ROWS),
    Family::new("attention", attention::ROWS),
    Family::new("loss", loss::ROWS),
    Family::new("rnn", rnn::LSTM_ROWS),
    Family::new("rnn", rnn::GRU_ROWS),
    Family::new("rnn", rnn::TANH_ROWS),
    Family::new("rnn", rnn::RELU_ROWS),
    Family::new("margin_loss", loss::MARGIN_ROWS),
    Family::new("distance", distance::ROWS),
    Family::new("optim", optim::ROWS),
    Family::new("foreach", foreach::UNARY),
    Family::new("foreach", foreach::ARITHMETIC),
    Family::new("foreach", foreach::BOUNDS),
    Family::new("foreach", foreach::BLENDS),
    Family::new("foreach", foreach::OTHERS),
];

/// Whether each element of the result of `row` comes from the operands' elements at the same place.
pub(crate) fn is_elementwise(row: &Row) -> bool {
    FAMILIES.iter().any(|f| f.is_elementwise && f.rows.iter().any(|r| r.schema == row.schema))
}

/// The kernels that programs may call.
pub(crate) const KERNEL_CALLS: &[Entry] = &[
    Entry::of::<matmul::Dot>(),
    Entry::of::<matmul::LinearCall>(),
    Entry::of::<lower::conv::ConvCall>(),
    Entry::of::<lower::conv::InputGradCall>(),
    Entry::of::<lower::conv::WeightGradCall>(),
    Entry::of::<attention::Attention>(),
    Entry::of::<attention::AttentionBackward>(),
    Entry::of::<pool::MaxPoolCall>(),
    Entry::of::<pool::MaxPoolBackwardCall>(),
    Entry::of::<lower::math::Angle>(),
    Entry::of::<activation::Gelu>(),
    Entry::of::<activation::GeluBackward>(),
    Entry::of::<norm::LayerNorm>(),
    Entry::of::<norm::LayerNormBackward>(),
    Entry::of::<norm::Softmax>(),
    Entry::of::<norm::SoftmaxBackward>(),
    Entry::of::<loss::CrossEntropy>(),
    Entry::of::<loss::CrossEntropyBackward>(),
    Entry::of::<reduce::SumRows>(),
    Entry::of::<lower::join::Join>(),
    Entry::of::<optim::AdamW>(),
    Entry::of::<optim::Sgd>(),
];

/// Every row of the table.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    FAMILIES.iter().flat_map(|family| family.rows)
}

/// An op that was found by its name.
pub(crate) struct Callable {
    row: &'static Row,
    /// The values of missing arguments.
    defaults: Vec<Arg<'static>>,
    /// Whether this is the in-place form.
    in_place: bool,
}

impl Callable {
    /// Call it. Arguments are in the schema's order. Missing ones at the end get their defaults.
    pub(crate) fn call(&self, args: &[Arg<'_>]) -> Result<Ret> {
        if args.len() > self.defaults.len() {
            return Err(Error::type_error(format!(
                "{}() takes {} arguments but {} were given",
                self.name(),
                self.defaults.len(),
                args.len()
            )));
        }
        let all: SmallVec<[Arg<'_>; 12]> =
            args.iter().copied().chain(self.defaults[args.len()..].iter().copied()).collect();
        if self.in_place { self.row.call_in_place(&Args(&all)) } else { (self.row.call)(&Args(&all)) }
    }
    /// [`Callable::call`] for an op that returns one tensor.
    pub(crate) fn call_tensor(&self, args: &[Arg<'_>]) -> Result<Tensor> {
        match self.call(args)? {
            Ret::Tensor(y) => Ok(y),
            other => Err(Error::runtime(format!("{} gave {other:?} where a tensor was expected", self.name()))),
        }
    }
    fn name(&self) -> &'static str {
        self.row.schema.split('(').next().unwrap_or_default()
    }
}

/// Find the op of a name in the form of [`call`].
pub(crate) fn find(name: &str) -> Result<&'static Callable> {
    static TABLE: OnceLock<HashMap<String, Callable>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = HashMap::new();
        for row in rows() {
            let schema = Schema::parse(row.schema).expect("a test parses every schema");
            let defaults: Vec<_> = schema.params.iter().map(|p| p.default.argument(p.ty)).collect();
            let name = row.schema.split('(').next().unwrap_or_default();
            if row.has_in_place() {
                let (base, overload) = name.split_at(name.find('.').unwrap_or(name.len()));
                let form = Callable { row, defaults: defaults.clone(), in_place: true };
                table.insert(format!("{base}_{overload}"), form);
            }
            table.insert(name.to_string(), Callable { row, defaults, in_place: false });
        }
        table
    });
    table.get(name).ok_or_else(|| Error::not_implemented(format!("there is no op named {name}")))
}

/// Call any op of the table by its schema's name, with its overload if it has one (`"add.Tensor"`). An underscore after
/// the name selects the in-place form (`"add_.Tensor"`). Arguments are in the schema's order. Missing ones at the end
/// get their defaults.
///
/// ```
/// use torchtpu_tensor::{DType, Device, Scalar, Tensor, ops, schema::Arg};
///
/// let x = Tensor::from_slice(&[3.0f32, 1.0, 2.0], &[3])?;
/// let y = ops::call_tensor("roll", &[Arg::Tensor(&x), Arg::Ints(&[1])])?;
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 3.0, 1.0]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
///
/// # Errors
/// `NotImplemented` when there is no such op, `Type` when there are too many arguments; the errors of the op.
pub fn call(name: &str, args: &[Arg<'_>]) -> Result<Ret> {
    find(name)?.call(args)
}

/// [`call`] for an op that returns one tensor.
///
/// # Errors
/// The errors of [`call`].
pub fn call_tensor(name: &str, args: &[Arg<'_>]) -> Result<Tensor> {
    find(name)?.call_tensor(args)
}

/// [`call`] for an op that returns two tensors.
///
/// # Errors
/// The errors of [`call`].
pub fn call_pair(name: &str, args: &[Arg<'_>]) -> Result<(Tensor, Tensor)> {
    match call(name, args)? {
        Ret::Tuple(y) | Ret::List(y) if y.len() == 2 => Ok((y[0].clone(), y[1].clone())),
        other => Err(Error::runtime(format!("{name} gave {other:?} where two tensors were expected"))),
    }
}
