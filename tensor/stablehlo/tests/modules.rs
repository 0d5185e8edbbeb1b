//! One module a method, kept as text. Every module here was compiled and run on XLA:CPU when its snapshot was accepted,
//! and its results compared with NumPy where NumPy has the function: a changed snapshot wants the same.

use torchtpu_stablehlo::ElementType::*;
use torchtpu_stablehlo::{
    ConvDims, Direction, ElementType, FftKind, Func, GatherDims, Precision, Profile, ReduceKind, RngAlgorithm,
    ScatterDims, ScatterKind,
};
use torchtpu_stablehlo::{Type, Value};

/// Defines tests: each builds a module and compares its text with the snapshot of its name.
macro_rules! modules {
    ($($name:ident: $build:expr;)*) => {$(
        #[test]
        fn $name() {
            let mut f = Func::new();
            let build: fn(&mut Func) -> Vec<Value> = $build;
            let outputs = build(&mut f);
            insta::assert_snapshot!(stringify!($name), f.finish(stringify!($name), &outputs));
        }
    )*};
}

fn arg(f: &mut Func, shape: &[usize], e: ElementType) -> Value {
    f.arg(Type::new(shape, e))
}

const FLOATS: [ElementType; 4] = [F16, BF16, F32, F64];
const INTEGERS: [ElementType; 8] = [S8, S16, S32, S64, U8, U16, U32, U64];

// The tables of operation names read better packed.
#[rustfmt::skip]
modules! {
    arguments_and_attributes: |f| {
        let (x, y) = (arg(f, &[2, 3], F32), arg(f, &[2, 3], F32));
        f.set_arg_attribute(0, "jax.buffer_donor", "true");
        f.alias_output(1, 1);
        f.set_arg_attribute(1, "mhlo.memory_kind", "\"device\"");
        vec![f.binary("stablehlo.add", &x, &y), f.binary("stablehlo.subtract", &x, &y)]
    };
    no_results: |f| {
        arg(f, &[2], F32);
        vec![]
    };
    constants: |f| {
        let mut outputs = vec![];
        for e in FLOATS {
            for v in [1.5, -0.0, 1e-5, 1e6, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.1] {
                outputs.push(f.scalar(v, e));
            }
            outputs.extend([f.lowest(e), f.highest(e)]);
        }
        // Too large for the type: rounds to infinity.
        outputs.extend([f.scalar(65520.0, F16), f.scalar(-1e39, F32), f.scalar(3.4e38, BF16)]);
        for e in INTEGERS {
            outputs.extend([f.scalar(7.9, e), f.scalar_i64(100, e), f.lowest(e), f.highest(e)]);
        }
        outputs.extend([f.scalar(2.0, Pred), f.scalar_i64(0, Pred), f.lowest(Pred), f.highest(Pred)]);
        outputs.extend([f.scalar(1.5, C64), f.scalar_i64(-2, C128), f.scalar_i64(3, F32)]);
        outputs
    };
    constant_tensors: |f| vec![
        f.splat(2.5, &Type::new(&[2, 3], F32)),
        f.splat(2.5, &Type::new(&[0, 3], F32)),
        f.splat_i64(i64::MIN, &Type::new(&[2], S64)),
        f.splat_complex(1.0, f64::INFINITY, &Type::new(&[2], C64)),
        f.dense_i64(&[1, -2, 3, 4, 5, 6], &[3, 2], S32),
        f.dense_i64(&[1, 0, 1], &[3], Pred),
        f.dense_i64(&[1, 2], &[2, 1], BF16),
        f.dense_i64(&[], &[2, 0], S64),
        f.dense_f64(&[0.5, f64::NAN, 1e300, -1.0], &[2, 2], F64),
    ];
    iotas: |f| vec![
        f.iota(&Type::new(&[2, 3], S64), 1),
        f.iota(&Type::new(&[2, 3], F32), 0),
        f.iota(&Type::new(&[4], BF16), 0),
        f.iota(&Type::new(&[0, 2], U8), 0),
    ];
    unary_float: |f| {
        let x = arg(f, &[8], F32);
        let ops = [
            "stablehlo.abs", "stablehlo.cbrt", "stablehlo.ceil", "stablehlo.cosine", "stablehlo.exponential",
            "stablehlo.exponential_minus_one", "stablehlo.floor", "stablehlo.log", "stablehlo.log_plus_one",
            "stablehlo.logistic", "stablehlo.negate", "stablehlo.round_nearest_afz", "stablehlo.round_nearest_even",
            "stablehlo.rsqrt", "stablehlo.sign", "stablehlo.sine", "stablehlo.sqrt", "stablehlo.tan", "stablehlo.tanh",
        ];
        ops.map(|op| f.unary(op, &x)).to_vec()
    };
    unary_chlo: |f| {
        let x = arg(f, &[8], F32);
        let ops = [
            "chlo.erf", "chlo.erfc", "chlo.lgamma", "chlo.digamma", "chlo.asinh", "chlo.atan", "chlo.cosh", "chlo.sinh",
            "chlo.square", "chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf",
        ];
        let mut outputs = ops.map(|op| f.unary(op, &x)).to_vec();
        let small = f.unary("stablehlo.tanh", &x);
        outputs.extend(["chlo.acos", "chlo.asin", "chlo.atanh", "chlo.erf_inv"].map(|op| f.unary(op, &small)));
        outputs
    };
    unary_integer: |f| {
        let x = arg(f, &[4], S32);
        let b = arg(f, &[4], Pred);
        let ops =
            ["stablehlo.abs", "stablehlo.count_leading_zeros", "stablehlo.not", "stablehlo.popcnt", "stablehlo.sign"];
        let mut outputs = ops.map(|op| f.unary(op, &x)).to_vec();
        outputs.push(f.unary("stablehlo.not", &b));
        outputs
    };
    complex: |f| {
        let (x, y) = (arg(f, &[4], F32), arg(f, &[4], F32));
        let z = f.binary("stablehlo.complex", &x, &y);
        let w = f.binary("stablehlo.multiply", &z, &z);
        let mut outputs = vec![f.unary("chlo.conj", &w), f.compare(Direction::Ne, &z, &w)];
        outputs.extend(["stablehlo.real", "stablehlo.imag", "stablehlo.abs"].map(|op| f.unary(op, &w)));
        outputs.extend([f.convert(&x, C64), f.convert(&z, F32), f.convert(&z, C128), f.convert(&z, Pred)]);
        outputs.push(f.reduce(&z, ReduceKind::Add, &[0]));
        outputs
    };
    binary_float: |f| {
        let (x, y) = (arg(f, &[8], F32), arg(f, &[8], F32));
        let ops = [
            "stablehlo.add", "stablehlo.subtract", "stablehlo.multiply", "stablehlo.divide", "stablehlo.maximum",
            "stablehlo.minimum", "stablehlo.remainder", "stablehlo.atan2", "stablehlo.power", "chlo.next_after",
        ];
        ops.map(|op| f.binary(op, &x, &y)).to_vec()
    };
    binary_integer: |f| {
        let (x, y) = (arg(f, &[4], S32), arg(f, &[4], S32));
        let ops = [
            "stablehlo.and", "stablehlo.or", "stablehlo.xor", "stablehlo.shift_left",
            "stablehlo.shift_right_arithmetic",
            "stablehlo.shift_right_logical", "stablehlo.divide", "stablehlo.remainder",
        ];
        ops.map(|op| f.binary(op, &x, &y)).to_vec()
    };
    division_by_integers: |f| {
        // Only a divisor that may be zero is replaced, and only once.
        let (x, y) = (arg(f, &[4], S64), arg(f, &[4], S64));
        let (two, zero, floats) = (f.splat_i64(2, x.ty()), f.splat_i64(0, x.ty()), arg(f, &[4], F32));
        let safe = f.nonzero(&y);
        vec![
            f.binary("stablehlo.divide", &x, &two),
            f.binary("stablehlo.divide", &x, &safe),
            f.binary("stablehlo.remainder", &x, &safe),
            f.binary("stablehlo.remainder", &x, &zero),
            f.binary("stablehlo.divide", &floats, &floats),
        ]
    };
    compares: |f| {
        let mut outputs = vec![];
        for e in [F32, BF16, S64, U8, Pred] {
            let (x, y) = (arg(f, &[4], e), arg(f, &[4], e));
            for dir in [Direction::Eq, Direction::Ne, Direction::Lt, Direction::Le, Direction::Gt, Direction::Ge] {
                outputs.push(f.compare(dir, &x, &y));
            }
        }
        outputs
    };
    select_and_clamp: |f| {
        let (p, q) = (arg(f, &[4], Pred), arg(f, &[], Pred));
        let (x, y) = (arg(f, &[4], F32), arg(f, &[4], F32));
        let (zero, one) = (f.scalar(0.0, F32), f.scalar(1.0, F32));
        vec![f.select(&p, &x, &y), f.select(&q, &x, &y), f.clamp(&zero, &x, &one), f.clamp(&y, &x, &one)]
    };
    converts: |f| {
        let x = arg(f, &[4], F32);
        let n = arg(f, &[4], S64);
        let b = arg(f, &[4], Pred);
        let mut outputs = vec![];
        for e in [Pred, S8, S32, S64, U8, F16, BF16, F32, F64] {
            outputs.extend([f.convert(&x, e), f.convert(&n, e), f.convert(&b, e)]);
        }
        outputs
    };
    bitcasts: |f| {
        let (x, b) = (arg(f, &[3], F32), arg(f, &[3, 4], U8));
        vec![f.bitcast_convert(&x, S32), f.bitcast_convert(&x, U8), f.bitcast_convert(&b, F32)]
    };
    is_finite: |f| {
        let x = arg(f, &[4], F32);
        vec![f.is_finite(&x)]
    };
    shapes: |f| {
        let x = arg(f, &[2, 3, 4], F32);
        let row = arg(f, &[4], F32);
        let column = arg(f, &[3, 1], F32);
        let one = arg(f, &[], F32);
        vec![
            f.reshape(&x, &[6, 4]),
            f.reshape(&one, &[1, 1]),
            f.transpose(&x, &[2, 0, 1]),
            f.broadcast_to(&row, &[3, 4]),
            f.broadcast_to(&column, &[2, 3, 4]),
            f.broadcast_to(&one, &[2, 2]),
            f.broadcast_in_dim(&row, &[4, 2], &[0]),
            f.slice(&x, &[0, 1, 0], &[2, 3, 4], &[1, 1, 2]),
            f.slice(&x, &[1, 1, 1], &[1, 3, 4], &[1, 1, 1]),
            f.slice_dim(&x, 1, 1, 2),
            f.reverse(&x, &[0, 2]),
            f.concatenate(&[x.clone(), x.clone(), x.clone()], 1),
        ]
    };
    pads: |f| {
        let x = arg(f, &[2, 3], F32);
        let v = arg(f, &[], F32);
        vec![
            f.pad(&x, &v, &[1, 0], &[0, 2], &[0, 0]),
            f.pad(&x, &v, &[0, -1], &[0, -1], &[1, 1]),
            f.pad(&x, &v, &[0, -1], &[0, 2], &[0, 0]),
        ]
    };
    dynamic_slices: |f| {
        let x = arg(f, &[4, 5], F32);
        let (i, j) = (arg(f, &[], S32), arg(f, &[], S32));
        let u = arg(f, &[2, 2], F32);
        vec![
            f.dynamic_slice(&x, &[i.clone(), j.clone()], &[2, 3]),
            f.dynamic_update_slice(&x, &u, &[i, j]),
        ]
    };
    dot_generals: |f| {
        let (a, b) = (arg(f, &[3, 4], F32), arg(f, &[4, 5], F32));
        let (c, d) = (arg(f, &[2, 3, 4], F32), arg(f, &[2, 5, 4], F32));
        let (h, i) = (f.convert(&a, BF16), f.convert(&b, BF16));
        let n = f.convert(&a, S32);
        vec![
            f.dot_general(&a, &b, (&[], &[]), (&[1], &[0]), F32, None),
            f.dot_general(&a, &b, (&[], &[]), (&[1], &[0]), F32, Some("HIGHEST")),
            f.dot_general(&c, &d, (&[0], &[0]), (&[2], &[2]), F32, None),
            f.dot_general(&c, &a, (&[], &[]), (&[1, 2], &[0, 1]), F32, None),
            f.dot_general(&a, &b, (&[], &[]), (&[], &[]), F32, None),
            f.dot_general(&h, &i, (&[], &[]), (&[1], &[0]), F32, None),
            f.dot_general(&n, &n, (&[], &[]), (&[1], &[1]), S32, None),
        ]
    };
    convolutions: |f| {
        let (x, w) = (arg(f, &[2, 4, 8, 7], F32), arg(f, &[6, 4, 3, 2], F32));
        let (x1, w1) = (arg(f, &[1, 2, 9], F32), arg(f, &[3, 2, 3], F32));
        let w2 = arg(f, &[6, 2, 3, 2], F32);
        let (x3, w3) = (arg(f, &[1, 1, 4, 4, 4], F32), arg(f, &[2, 1, 2, 2, 2], F32));
        let plain = ConvDims::new(2);
        let strided = ConvDims { window_strides: vec![2, 3], padding: vec![(1, 0), (0, 2)], ..plain.clone() };
        let transposed = ConvDims { lhs_dilation: vec![2, 2], padding: vec![(1, 2), (1, 1)], ..plain.clone() };
        let dilated =
            ConvDims { rhs_dilation: vec![2, 3], window_reversal: vec![true, false], ..plain.clone() };
        let grouped = ConvDims { feature_group_count: 2, precision: Some("HIGHEST"), ..plain.clone() };
        let batch_grouped = ConvDims { batch_group_count: 2, ..plain.clone() };
        vec![
            f.convolution(&x, &w, &plain),
            f.convolution(&x, &w, &strided),
            f.convolution(&x, &w, &transposed),
            f.convolution(&x, &w, &dilated),
            f.convolution(&x, &w2, &grouped),
            f.convolution(&x, &w, &batch_grouped),
            f.convolution(&x1, &w1, &ConvDims { padding: vec![(1, 1)], ..ConvDims::new(1) }),
            f.convolution(&x3, &w3, &ConvDims::new(3)),
        ]
    };
    convolution_negative_padding: |f| {
        let (x, w) = (arg(f, &[1, 2, 8, 8], F32), arg(f, &[3, 2, 3, 3], F32));
        vec![
            f.convolution(&x, &w, &ConvDims { padding: vec![(-1, -1), (-2, 1)], ..ConvDims::new(2) }),
            f.convolution(&x, &w, &ConvDims { padding: vec![(2, 1), (-2, 1)], ..ConvDims::new(2) }),
            f.convolution(
                &x,
                &w,
                &ConvDims { padding: vec![(-3, 2), (1, 1)], lhs_dilation: vec![2, 2], ..ConvDims::new(2) },
            ),
        ]
    };
    convolution_nhwc: |f| {
        let (x, w) = (arg(f, &[2, 5, 5, 3], F32), arg(f, &[3, 3, 3, 4], F32));
        let dims = ConvDims {
            input_feature_dimension: 3,
            input_spatial_dimensions: vec![1, 2],
            kernel_spatial_dimensions: vec![0, 1],
            kernel_input_feature_dimension: 2,
            kernel_output_feature_dimension: 3,
            output_feature_dimension: 3,
            output_spatial_dimensions: vec![1, 2],
            ..ConvDims::new(2)
        };
        vec![f.convolution(&x, &w, &dims)]
    };
    reduces: |f| {
        use ReduceKind::*;
        let x = arg(f, &[3, 4], F32);
        let n = arg(f, &[3, 4], S32);
        let u = arg(f, &[3, 4], U8);
        let b = arg(f, &[3, 4], Pred);
        let empty = arg(f, &[0, 4], F32);
        let mut outputs = vec![];
        for kind in [Add, Mul, Max, Min] {
            for x in [&x, &n, &u, &b, &empty] {
                outputs.push(f.reduce(x, kind, &[0]));
            }
        }
        for kind in [And, Or] {
            for x in [&n, &u, &b] {
                outputs.push(f.reduce(x, kind, &[1]));
            }
        }
        outputs.push(f.reduce(&x, Add, &[0, 1]));
        outputs
    };
    reduce_accumulates_halves_in_f32: |f| {
        let (x, y) = (arg(f, &[4096], BF16), arg(f, &[4096], F16));
        vec![
            f.reduce(&x, ReduceKind::Add, &[0]),
            f.reduce(&y, ReduceKind::Add, &[0]),
            f.reduce(&x, ReduceKind::Max, &[0]),
        ]
    };
    reduce_args: |f| {
        let (x, n, b) = (arg(f, &[5, 4], F32), arg(f, &[5, 4], S32), arg(f, &[5, 4], Pred));
        let mut outputs = vec![];
        for x in [&x, &n, &b] {
            for is_max in [true, false] {
                let (values, indices) = f.reduce_arg(x, is_max, 1);
                outputs.extend([values, indices]);
            }
        }
        outputs
    };
    reduce_windows: |f| {
        let x = arg(f, &[1, 2, 7, 7], F32);
        let ones = [1; 4];
        let pad = [(0, 0), (0, 0), (1, 1), (0, 1)];
        let none = [(0, 0); 4];
        let half = f.convert(&x, BF16);
        vec![
            f.reduce_window(&x, ReduceKind::Max, &[1, 1, 3, 2], &[1, 1, 2, 2], &pad, &ones, &ones),
            f.reduce_window(&x, ReduceKind::Add, &[1, 1, 3, 3], &[1, 1, 1, 1], &none, &ones, &[1, 1, 2, 2]),
            f.reduce_window(&x, ReduceKind::Add, &[1, 1, 2, 2], &[1, 1, 1, 1], &none, &[1, 1, 2, 2], &ones),
            f.reduce_window(&half, ReduceKind::Add, &[1, 1, 3, 3], &[1, 1, 3, 3], &pad, &ones, &ones),
        ]
    };
    select_and_scatters: |f| {
        let (x, g) = (arg(f, &[1, 1, 5, 5], F32), arg(f, &[1, 1, 3, 3], F32));
        let n = f.convert(&x, S32);
        let m = f.convert(&g, S32);
        let pad = [(0, 0), (0, 0), (1, 1), (1, 1)];
        vec![
            f.select_and_scatter(&x, &g, &[1, 1, 3, 3], &[1, 1, 2, 2], &pad),
            f.select_and_scatter(&n, &m, &[1, 1, 3, 3], &[1, 1, 1, 1], &[(0, 0); 4]),
        ]
    };
    cumulatives: |f| {
        let (x, n, h) = (arg(f, &[3, 6], F32), arg(f, &[3, 6], S64), arg(f, &[300], BF16));
        let kinds = [ReduceKind::Add, ReduceKind::Mul, ReduceKind::Max, ReduceKind::Min];
        let mut outputs = kinds.map(|kind| f.cumulative(&x, kind, 1)).to_vec();
        outputs.extend(kinds.map(|kind| f.cumulative(&n, kind, 0)));
        outputs.push(f.cumulative(&h, ReduceKind::Add, 0));
        outputs
    };
    sorts: |f| {
        let (x, n, b) = (arg(f, &[3, 6], F32), arg(f, &[3, 6], S64), arg(f, &[3, 6], Pred));
        let index = f.iota(&Type::new(&[3, 6], S64), 1);
        let mut outputs = vec![];
        for key in [&x, &n, &b] {
            for descending in [false, true] {
                outputs.extend(f.sort(&[key.clone(), index.clone()], 1, descending, true));
            }
        }
        outputs.extend(f.sort(std::slice::from_ref(&x), 0, false, false));
        outputs
    };
    top_ks: |f| {
        let (x, n) = (arg(f, &[3, 6], F32), arg(f, &[6], S32));
        let (a, b) = f.top_k(&x, 4);
        let (c, d) = f.top_k(&n, 2);
        vec![a, b, c, d]
    };
    gathers: |f| {
        let x = arg(f, &[10, 4], F32);
        let corners = arg(f, &[2, 2], S32);
        let windows = GatherDims {
            offset_dims: vec![1, 2],
            start_index_map: vec![0, 1],
            index_vector_dim: 1,
            ..GatherDims::default()
        };
        let points = GatherDims {
            collapsed_slice_dims: vec![0, 1],
            start_index_map: vec![0, 1],
            index_vector_dim: 1,
            ..GatherDims::default()
        };
        vec![
            f.gather(&x, &corners, &windows, &[2, 3], false),
            f.gather(&x, &corners, &points, &[1, 1], true),
        ]
    };
    takes: |f| {
        let x = arg(f, &[5, 4, 3], F32);
        let (i, j, k) = (arg(f, &[2, 3], S64), arg(f, &[2], S32), arg(f, &[], S64));
        vec![f.take_rows(&x, &i), f.take(&x, &j, 1), f.take(&x, &j, 2), f.take_rows(&x, &k)]
    };
    puts: |f| {
        let x = arg(f, &[5, 3], F32);
        let i = arg(f, &[2, 2], S64);
        let u = arg(f, &[2, 2, 3], F32);
        let v = arg(f, &[5, 2, 2], F32);
        use ScatterKind::*;
        let mut outputs = [Add, Set, Mul, Max, Min].map(|kind| f.put(&x, &i, &u, 0, kind)).to_vec();
        outputs.push(f.put(&x, &i, &v, 1, Add));
        outputs
    };
    scatters: |f| {
        let (x, i, u) = (arg(f, &[6, 4], F32), arg(f, &[2, 2], S32), arg(f, &[2, 2, 3], F32));
        let dims = ScatterDims {
            update_window_dims: vec![1, 2],
            scatter_dims_to_operand_dims: vec![0, 1],
            index_vector_dim: 1,
            indices_are_sorted: true,
            unique_indices: true,
            ..ScatterDims::default()
        };
        vec![f.scatter(&x, &i, &u, &dims, ScatterKind::Add)]
    };
    takes_and_puts_along: |f| {
        let x = arg(f, &[3, 4, 5], F32);
        let (full, short) = (arg(f, &[3, 2, 5], S64), arg(f, &[2, 6, 3], S64));
        let (u, v) = (arg(f, &[3, 2, 5], F32), arg(f, &[2, 6, 3], F32));
        let (s, zero, t) = (arg(f, &[], F32), arg(f, &[], S64), arg(f, &[], F32));
        let none = arg(f, &[3, 0, 5], S64);
        vec![
            f.take_along(&x, &full, 1),
            f.take_along(&x, &short, 1),
            f.take_along(&s, &zero, 0),
            f.take_along(&x, &none, 1),
            f.put_along(&x, &full, &u, 1, ScatterKind::Add),
            f.put_along(&x, &short, &v, 1, ScatterKind::Add),
            f.put_along(&s, &zero, &t, 0, ScatterKind::Set),
        ]
    };
    rng_bits: |f| {
        let state = arg(f, &[2], U64);
        let (state, words) = f.rng_bit_generator(&state, &Type::new(&[3, 4], U32), RngAlgorithm::Fastest);
        let (state, long) = f.rng_bit_generator(&state, &Type::new(&[5], U64), RngAlgorithm::Threefry);
        vec![state, words, long]
    };
    custom_calls: |f| {
        let (x, s) = (arg(f, &[5, 3], F32), arg(f, &[], F32));
        let mut outputs =
            f.custom_call("torchtpu.kernel", &[x.clone(), x.clone()], &[Type::new(&[5, 5], F32)], &[], "matmul",
                &[0, 1]);
        outputs.extend(f.custom_call("torchtpu.kernel", std::slice::from_ref(&s), &[s.ty().clone(), x.ty().clone()],
            &[], "two", &[]));
        f.call_after(vec![outputs[0].clone()]);
        let both = [s.ty().clone(), x.ty().clone()];
        outputs.extend(f.custom_call("torchtpu.kernel", &[x.clone(), s.clone()], &both, &[(1, 0)], "in place", &[]));
        outputs.extend(f.custom_call("torchtpu.kernel", std::slice::from_ref(&s), &[s.ty().clone()], &[(0, 0)], "one",
            &[]));
        assert_eq!(f.custom_calls(), 4);
        outputs
    };
    ffts: |f| {
        let (x, z) = (arg(f, &[2, 7], F32), arg(f, &[2, 3, 4], C64));
        let half = f.fft(&x, FftKind::Rfft, &[7]);
        vec![
            f.fft(&z, FftKind::Fft, &[3, 4]),
            f.fft(&z, FftKind::Ifft, &[4]),
            f.fft(&half, FftKind::Irfft, &[7]),
            half,
        ]
    };
    triangular_matrices: |f| {
        let (x, b) = (arg(f, &[2, 3, 3], F32), arg(f, &[2, 3, 4], F32));
        let a = f.dot_general(&x, &x, (&[0], &[0]), (&[2], &[2]), F32, None);
        let one = f.splat(1.0, &Type::new(&[2, 3, 3], F32));
        let (row, column) = (f.iota(&Type::new(&[3, 3], S32), 0), f.iota(&Type::new(&[3, 3], S32), 1));
        let diagonal = f.compare(Direction::Eq, &row, &column);
        let below = f.compare(Direction::Ge, &row, &column);
        let below = f.broadcast_to(&below, &[2, 3, 3]);
        let diagonal = f.broadcast_to(&diagonal, &[2, 3, 3]);
        let zero = f.splat(0.0, &Type::new(&[2, 3, 3], F32));
        let eye = f.select(&diagonal, &one, &zero);
        let a = f.binary("stablehlo.add", &a, &eye);
        let l = f.cholesky(&a, true);
        let l = f.select(&below, &l, &zero);
        let c = f.transpose(&b, &[0, 2, 1]);
        vec![
            f.triangular_solve(&l, &b, true, true, false, false),
            f.triangular_solve(&l, &c, false, true, false, true),
            l,
        ]
    };
    narrow_types: |f| {
        let mut outputs = vec![];
        for e in [F16, BF16, F64, U8, S8, S64, Pred] {
            let x = arg(f, &[2, 6], e);
            let index = arg(f, &[2, 6], S64);
            outputs.extend(f.sort(std::slice::from_ref(&x), 1, true, true));
            let (values, indices) = f.reduce_arg(&x, true, 1);
            outputs.extend([values, indices]);
            if e != Pred {
                outputs.push(f.top_k(&x, 2).0);
                outputs.push(f.cumulative(&x, ReduceKind::Add, 1));
            }
            outputs.push(f.take_along(&x, &index, 1));
            outputs.push(f.put_along(&x, &index, &x, 1, ScatterKind::Max));
        }
        outputs
    };
    while_loops: |f| {
        let (x, limit) = (arg(f, &[3], F32), arg(f, &[], S32));
        let start = f.scalar_i64(0, S32);
        let mut outputs = f.while_loop(
            &[start, x.clone()],
            |f, carried| f.compare(Direction::Lt, &carried[0], &limit),
            |f, carried| {
                // 0 is known outside; 1 and 2.0 belong to this region.
                let (one, two) = (f.scalar_i64(1, S32), f.splat(2.0, &Type::new(&[3], F32)));
                vec![f.binary("stablehlo.add", &carried[0], &one), f.binary("stablehlo.multiply", &carried[1], &two)]
            },
        );
        let two = f.splat(2.0, &Type::new(&[3], F32));
        outputs.push(f.binary("stablehlo.add", &x, &two));
        outputs
    };
    branches: |f| {
        let (p, x) = (arg(f, &[], Pred), arg(f, &[3], F32));
        let outputs = f.if_else(
            &p,
            |f| {
                let one = f.splat(1.0, &Type::new(&[3], F32));
                vec![f.binary("stablehlo.add", &x, &one), x.clone()]
            },
            |f| {
                let one = f.splat(1.0, &Type::new(&[3], F32));
                vec![one.clone(), f.binary("stablehlo.subtract", &x, &one)]
            },
        );
        f.optimization_barrier(&outputs)
    };
}

/// Products and convolutions of several types, and one product whose caller knows better.
fn products(f: &mut Func) -> Vec<Value> {
    let mut outputs = vec![];
    for e in [F32, C64, BF16, F64] {
        let (a, b) = (arg(f, &[2, 3], e), arg(f, &[3, 4], e));
        outputs.push(f.dot_general(&a, &b, (&[], &[]), (&[1], &[0]), e, None));
    }
    let (a, b) = (arg(f, &[2, 3], F32), arg(f, &[3, 4], F32));
    outputs.push(f.dot_general(&a, &b, (&[], &[]), (&[1], &[0]), F32, Some("DEFAULT")));
    let (x, w) = (arg(f, &[1, 2, 5], F32), arg(f, &[3, 2, 3], F32));
    outputs.push(f.convolution(&x, &w, &ConvDims::new(1)));
    outputs
}

#[test]
fn accelerators_are_told_how_precisely_to_multiply() {
    for (name, precision) in [
        ("products_highest", Precision::Highest),
        ("products_high", Precision::High),
        ("products_medium", Precision::Medium),
    ] {
        let mut f = Func::new();
        f.set_precision(precision);
        let outputs = products(&mut f);
        assert_eq!(f.precise_products(), 3);
        insta::assert_snapshot!(name, f.finish(name, &outputs));
    }
}

#[test]
fn xla_cpu_is_told_no_precision() {
    let text = |precision| {
        let mut f = Func::with_profile(&Profile::XLA_CPU);
        if let Some(precision) = precision {
            f.set_precision(precision);
        }
        let outputs = products(&mut f);
        f.finish("products", &outputs)
    };
    for precision in [Precision::Highest, Precision::High, Precision::Medium] {
        assert_eq!(text(Some(precision)), text(None));
    }
}

/// XLA:CPU adds up windows of 32 elements along each reduced dimension in a row: one dimension at a time is precise.
#[test]
fn xla_cpu_sums_one_dimension_at_a_time() {
    for (name, profile) in [("sums_for_xla_cpu", Profile::XLA_CPU), ("sums_elsewhere", Profile::UNKNOWN)] {
        let mut f = Func::with_profile(&profile);
        let x = arg(&mut f, &[4, 3, 64, 5, 2], F32);
        let flat = f.reshape(&x, &[4, 3 * 64 * 5, 2]);
        let ints = arg(&mut f, &[64, 64], S32);
        let outputs = [
            f.reduce(&x, ReduceKind::Add, &[0, 1, 2, 3, 4]),
            f.reduce(&x, ReduceKind::Add, &[0, 2]),
            f.reduce(&x, ReduceKind::Max, &[0, 2]),
            f.reduce(&flat, ReduceKind::Add, &[1]),
            f.reduce(&ints, ReduceKind::Add, &[0, 1]),
        ];
        insta::assert_snapshot!(name, f.finish(name, &outputs));
    }
}

#[test]
fn platforms_are_known_by_the_names_of_plugins() {
    assert_eq!(Profile::of("CUDA"), Profile::GPU);
    assert_eq!(Profile::of("tpu"), Profile::TPU);
    assert_eq!(Profile::of("simulated"), Profile::UNKNOWN);
    let names: Vec<&str> = Profile::CAPABILITIES.iter().map(|c| c.0).collect();
    assert!(names.contains(&"calls_kernels"));
    for (_, field) in Profile::CAPABILITIES {
        let mut flipped = Profile::XLA_CPU;
        *field(&mut flipped) ^= true;
        assert_ne!(flipped, Profile::XLA_CPU);
    }
}
