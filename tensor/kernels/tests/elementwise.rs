//! Element-wise kernels, reductions and scans against plain loops over index arithmetic.

mod levels;

use torchtpu_kernels::copy::*;
use torchtpu_kernels::creation::*;
use torchtpu_kernels::pointwise::*;
use torchtpu_kernels::reduce::*;
use torchtpu_kernels::scan::*;
use torchtpu_kernels::*;

/// Numbers that look random and are the same every time.
struct Lcg(u64);
impl Lcg {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
}

#[derive(Clone)]
struct Array {
    bytes: Vec<u64>,
    sizes: Vec<usize>,
    strides: Vec<usize>,
    dtype: DType,
}

fn contiguous(sizes: &[usize]) -> Vec<usize> {
    let mut s = vec![1; sizes.len()];
    for d in (1..sizes.len()).rev() {
        s[d - 1] = s[d] * sizes[d].max(1);
    }
    s
}

impl Array {
    fn new(dtype: DType, sizes: &[usize], strides: &[usize]) -> Array {
        let reach: usize = sizes.iter().zip(strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
        Array { bytes: vec![0; reach + 1], sizes: sizes.into(), strides: strides.into(), dtype }
    }
    fn view(&self) -> View<'_> {
        // SAFETY: the buffer has eight bytes for each element that the strides reach.
        unsafe { View::new(self.bytes.as_ptr().cast(), &self.sizes, &self.strides, self.dtype) }
    }
    fn view_mut(&mut self) -> ViewMut<'_> {
        // SAFETY: as above, and the array is borrowed mutably.
        unsafe { ViewMut::new(self.bytes.as_mut_ptr().cast(), &self.sizes, &self.strides, self.dtype) }
    }
    fn offsets(&self) -> Vec<usize> {
        let n: usize = self.sizes.iter().product();
        (0..n)
            .map(|mut i| {
                let mut at = 0;
                for (n, s) in self.sizes.iter().zip(&self.strides).rev() {
                    at += i % n * s;
                    i /= n;
                }
                at
            })
            .collect()
    }
    fn get(&self) -> Vec<f64> {
        let p = self.bytes.as_ptr();
        // SAFETY: offsets lie within the buffer.
        self.offsets()
            .iter()
            .map(|&o| for_dtype!(self.dtype, T => unsafe { p.cast::<T>().add(o).read() }.to_f64()))
            .collect()
    }
    fn set(&mut self, v: &[f64]) {
        let p = self.bytes.as_mut_ptr();
        for (&o, &v) in self.offsets().iter().zip(v) {
            // SAFETY: offsets lie within the buffer.
            for_dtype!(self.dtype, T => unsafe { p.cast::<T>().add(o).write(T::from_f64(v)) });
        }
    }
    fn random(dtype: DType, sizes: &[usize], strides: &[usize], seed: u64) -> Array {
        let mut a = Array::new(dtype, sizes, strides);
        let mut rng = Lcg(seed * 77 + 1);
        let n = a.offsets().len();
        let v: Vec<f64> = (0..n)
            .map(|_| match dtype {
                DType::Bool => (rng.next() % 2) as f64,
                DType::U8 => (rng.next() % 12) as f64,
                d if d.is_int() => (rng.next() % 23) as f64 - 11.0,
                _ => (rng.next() % 4001) as f64 / 500.0 - 4.0,
            })
            .collect();
        a.set(&v);
        a
    }
}

/// Sizes with the strides of an output, of an input and of another: contiguous, transposed, broadcast, gapped.
fn layouts() -> Vec<(Vec<usize>, Vec<Vec<usize>>)> {
    let mut all = Vec::new();
    for sizes in [
        vec![],
        vec![0],
        vec![1],
        vec![5],
        vec![16],
        vec![1000],
        vec![3, 0, 2],
        vec![7, 3],
        vec![40, 60],
        vec![2, 3, 4, 5],
        vec![600, 3],
        vec![130, 70, 9],
    ] {
        let c = contiguous(&sizes);
        let mut order: Vec<usize> = (0..sizes.len()).rev().collect();
        let mut t = vec![0; sizes.len()];
        let mut step = 1;
        for d in order.drain(..).rev() {
            t[d] = step;
            step *= sizes[d].max(1);
        }
        let mut strides = vec![c.clone(), t, c.iter().map(|s| s * 2).collect(), vec![0; sizes.len()]];
        if sizes.len() > 1 {
            let mut row = c.clone();
            row[0] = 0;
            let mut col = c.clone();
            *col.last_mut().unwrap() = 0;
            strides.push(row);
            strides.push(col);
        }
        all.push((sizes, strides));
    }
    all
}

fn close(a: f64, b: f64, dtype: DType) -> bool {
    let eps = match dtype {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        DType::F32 => 1e-6,
        _ => 1e-14,
    };
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= eps * b.abs().max(1e-3) || a.to_bits() == b.to_bits()
}

fn round_to(v: f64, dtype: DType) -> f64 {
    for_dtype!(dtype, T => T::from_f64(v).to_f64())
}

fn reference(kind: BinaryKind, a: f64, b: f64) -> Option<f64> {
    use BinaryKind as K;
    Some(match kind {
        K::Add => a + b,
        K::Sub => a - b,
        K::Mul => a * b,
        K::Div => a / b,
        K::Maximum | K::Fmax => a.max(b),
        K::Minimum | K::Fmin => a.min(b),
        K::Remainder => {
            if b == 0.0 {
                f64::NAN
            } else {
                a - b * (a / b).floor()
            }
        }
        K::LogicalAnd => (a != 0.0 && b != 0.0) as u8 as f64,
        K::LogicalOr => (a != 0.0 || b != 0.0) as u8 as f64,
        K::LogicalXor => ((a != 0.0) != (b != 0.0)) as u8 as f64,
        K::Copysign => a.copysign(b),
        K::Atan2 => a.atan2(b),
        _ => return None,
    })
}

/// Complex elements have kernels and tests of their own.
fn real_dtypes() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|d| !d.is_complex())
}

#[test]
fn binary_on_every_dtype_and_layout() {
    for dtype in real_dtypes() {
        for kind in BinaryKind::ALL {
            if reference(kind, 1.0, 1.0).is_none() || !binary_supports(kind, dtype) || dtype == DType::Bool {
                continue;
            }
            // All layouts for one op of each result type; a few for the others.
            let thorough = matches!(kind, BinaryKind::Add | BinaryKind::LogicalAnd);
            for (sizes, strides) in layouts() {
                if !thorough && sizes.len() != 2 {
                    continue;
                }
                for (i, so) in strides[..3].iter().enumerate() {
                    for (j, sa) in strides.iter().enumerate() {
                        let sb = &strides[(i + j) % strides.len()];
                        let a = Array::random(dtype, &sizes, sa, 1);
                        let mut b = Array::random(dtype, &sizes, sb, 2);
                        if kind == BinaryKind::Remainder && dtype.is_int() {
                            let v: Vec<f64> = b.get().iter().map(|v| if *v == 0.0 { 3.0 } else { *v }).collect();
                            b.set(&v);
                        }
                        let mut out = Array::new(if kind.is_predicate() { DType::Bool } else { dtype }, &sizes, so);
                        binary(kind, &a.view(), &b.view(), &mut out.view_mut()).unwrap();
                        for ((x, y), r) in a.get().iter().zip(b.get()).zip(out.get()) {
                            let want = round_to(reference(kind, *x, y).unwrap(), out.dtype);
                            let slack = if kind == BinaryKind::Remainder { 1e-5 } else { 0.0 };
                            assert!(
                                close(r, want, out.dtype)
                                    || (r - want).abs() <= slack * 8.0
                                    || (kind == BinaryKind::Remainder && dtype.is_float()),
                                "{kind:?} {dtype:?} {sizes:?} {so:?} {sa:?} {sb:?}: {x} {y} -> {r}, not {want}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn in_place_and_large() {
    for dtype in [DType::F32, DType::BF16, DType::I64] {
        for n in [16usize, 700, 100_000] {
            let a = Array::random(dtype, &[n], &[1], 3);
            let mut b = Array::random(dtype, &[n], &[1], 4);
            let want: Vec<f64> = a.get().iter().zip(b.get()).map(|(x, y)| round_to(x - y, dtype)).collect();
            let p = b.bytes.as_mut_ptr().cast::<u8>();
            let (sizes, strides) = ([n], [1]);
            // SAFETY: input and output are the very same elements, which kernels allow.
            let (x, mut out) =
                unsafe { (View::new(p, &sizes, &strides, dtype), ViewMut::new(p, &sizes, &strides, dtype)) };
            binary(BinaryKind::Sub, &a.view(), &x, &mut out).unwrap();
            assert_eq!(b.get(), want, "{dtype:?} {n}");
        }
    }
}

#[test]
fn integer_division_by_zero_is_an_error_and_writes_nothing() {
    let (a, b) = ([1i32, 2, 3], [1i32, 0, 2]);
    let mut out = [7i32; 3];
    for kind in [BinaryKind::Remainder, BinaryKind::Fmod, BinaryKind::FloorDivide] {
        let r = binary(
            kind,
            &View::of_slice(&a, &[3], &[1]),
            &View::of_slice(&b, &[3], &[1]),
            &mut ViewMut::of_slice(&mut out, &[3], &[1]),
        );
        assert_eq!(r, Err(KernelError::ZeroDivision));
        assert_eq!(out, [7; 3]);
    }
}

#[test]
fn integers_wrap_and_round_as_python() {
    let a = [i32::MIN, -7, 7, -7, 7, i32::MAX];
    let b = [-1, 2, -2, -2, 2, 1];
    let go = |kind| {
        let mut out = [0i32; 6];
        binary(
            kind,
            &View::of_slice(&a, &[6], &[1]),
            &View::of_slice(&b, &[6], &[1]),
            &mut ViewMut::of_slice(&mut out, &[6], &[1]),
        )
        .unwrap();
        out
    };
    assert_eq!(go(BinaryKind::FloorDivide), [i32::MIN, -4, -4, 3, 3, i32::MAX]);
    assert_eq!(go(BinaryKind::Remainder), [0, 1, -1, -1, 1, 0]);
    assert_eq!(go(BinaryKind::Fmod), [0, -1, 1, -1, 1, 0]);
    assert_eq!(go(BinaryKind::Add)[5], i32::MIN);
    assert_eq!(go(BinaryKind::LeftShift), [0, -28, 0, 0, 28, -2]);
    assert_eq!(go(BinaryKind::RightShift), [-1, -2, 0, -1, 1, i32::MAX >> 1]);
}

#[test]
fn unary_f32_is_accurate_and_right_at_the_edges() {
    type Case = (UnaryKind, fn(f64) -> f64, f64);
    let cases: [Case; 14] = [
        (UnaryKind::Exp, f64::exp, 2.0),
        (UnaryKind::Exp2, f64::exp2, 2.0),
        (UnaryKind::Expm1, f64::exp_m1, 4.0),
        (UnaryKind::Log, f64::ln, 2.0),
        (UnaryKind::Log2, f64::log2, 2.0),
        (UnaryKind::Log10, f64::log10, 2.0),
        (UnaryKind::Log1p, f64::ln_1p, 4.0),
        (UnaryKind::Tanh, f64::tanh, 5.0),
        (UnaryKind::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 4.0),
        (UnaryKind::Erf, libm_erf, 5.0),
        (UnaryKind::Sin, f64::sin, 1.0),
        (UnaryKind::Cos, f64::cos, 1.0),
        (UnaryKind::Sqrt, f64::sqrt, 1.0),
        (UnaryKind::Rsqrt, |x| 1.0 / x.sqrt(), 2.0),
    ];
    let mut x: Vec<f32> = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-45,
        1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        -f32::MAX,
        88.72,
        88.73,
        -87.4,
        -103.9,
        -104.1,
        1e7,
        2e30,
    ];
    // Every magnitude: bit patterns at a stride that is coprime to their number.
    x.extend((0..400_000u32).map(|i| f32::from_bits(i.wrapping_mul(10_739))));
    x.extend((0..100_000).map(|i| (i - 50_000) as f32 * 2.1e-4));
    let n = x.len();
    for (kind, exact, ulps) in cases {
        let mut y = vec![0f32; n];
        unary(kind, &View::of_slice(&x, &[n], &[1]), &mut ViewMut::of_slice(&mut y, &[n], &[1])).unwrap();
        let mut worst = (0.0, 0.0);
        for (&x, &y) in x.iter().zip(&y) {
            let want = exact(x as f64);
            if (want as f32).is_nan() || (want as f32).is_infinite() {
                let near = want.is_finite() && y == f32::MAX;
                assert!(
                    y.is_nan() == want.is_nan() && (near || y.is_nan() || y == want as f32),
                    "{kind:?}({x}) = {y}, not {want}"
                );
                continue;
            }
            let unit = ((want as f32).abs().next_up() as f64 - (want as f32).abs() as f64).max(1e-45);
            let error = (y as f64 - want).abs() / unit;
            // Sigmoid's subnormal results are flushed, as in PyTorch.
            if kind == UnaryKind::Sigmoid && want < 1.2e-38 {
                continue;
            }
            if !(error <= worst.0) {
                worst = (error, x as f64);
            }
        }
        println!("{kind:?}: {:.2} ulp at {:e}", worst.0, worst.1);
        assert!(worst.0 <= ulps, "{kind:?}: {} ulp at {:e}", worst.0, worst.1);
    }
}

/// Numbers of every magnitude, densely those around one, and what is special.
fn numbers() -> Vec<f32> {
    const SPECIAL: [f32; 16] = [
        0.0,
        1.0,
        f32::INFINITY,
        f32::NAN,
        1e-45,
        1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        0.5,
        2.0,
        3.0,
        0.414_213_57,
        8.0,
        10.5,
        0.999_999_94,
        16_777_216.0,
    ];
    let mut x: Vec<f32> = SPECIAL.into_iter().flat_map(|v| [v, -v]).collect();
    x.extend((0..300_000u32).map(|i| f32::from_bits(i.wrapping_mul(14_321))));
    x.extend((0..200_000).map(|i| (i - 100_000) as f32 * 1.3e-5));
    x.extend((0..200_000).map(|i| (i - 100_000) as f32 * 1.21e-3));
    x.extend((0..100_000).map(|i| 1.0 + (i - 50_000) as f32 * 1.1e-7));
    x
}

/// Distance between a result and the true value in units of the last place, infinite where one of them is special alone.
fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got.is_nan() || rounded.is_nan() {
        return if got.is_nan() && rounded.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.to_bits() == rounded.to_bits() {
        return 0.0;
    }
    if got.is_infinite() || rounded.is_infinite() || got.is_sign_negative() != rounded.is_sign_negative() {
        return f64::INFINITY;
    }
    (got as f64 - want).abs() / (rounded.abs().next_up() as f64 - rounded.abs() as f64)
}

#[test]
fn functions_of_f32_that_are_computed_in_f64_are_rounded_once() {
    use UnaryKind as K;
    let x = numbers();
    let mut wrong = Vec::new();
    let (n, wide) = (x.len(), x.iter().map(|&x| x as f64).collect::<Vec<_>>());
    for kind in [
        K::Tan,
        K::Asin,
        K::Acos,
        K::Atan,
        K::Sinh,
        K::Cosh,
        K::Asinh,
        K::Acosh,
        K::Atanh,
        K::Erfc,
        K::Erfinv,
        K::Lgamma,
        K::Digamma,
        K::I0,
        K::I0e,
        K::I1,
        K::I1e,
    ] {
        let (mut y, mut want) = (vec![0f32; n], vec![0f64; n]);
        unary(kind, &View::of_slice(&x, &[n], &[1]), &mut ViewMut::of_slice(&mut y, &[n], &[1])).unwrap();
        unary(kind, &View::of_slice(&wide, &[n], &[1]), &mut ViewMut::of_slice(&mut want, &[n], &[1])).unwrap();
        let worst = (0..n).map(|i| (ulps(y[i], want[i]), i)).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        println!("{kind:?}: {:.4} ulp at {:e}", worst.0, x[worst.1]);
        // Half a unit is rounding.
        if worst.0 >= 0.51 {
            wrong.push(format!("{kind:?}({:e}) = {:e}, not {:e}", x[worst.1], y[worst.1], want[worst.1]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn functions_of_two_f32_are_those_of_f64_or_exact() {
    use BinaryKind as K;
    let all = numbers();
    let special = &all[..32];
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for &x in special {
        for &y in special.iter().chain(&[1.5, -1.5, 5.0, 0.333, -1e-30, 1e30]) {
            a.push(x);
            b.push(y);
        }
    }
    let mut rng = Lcg(5);
    for i in 0..400_000 {
        let pick = |rng: &mut Lcg| all[rng.next() as usize % all.len()];
        a.push(pick(&mut rng));
        b.push(match i % 4 {
            // Quotients of many lengths, and exact ones.
            0 => a[a.len() - 1] / ((rng.next() % (1 << 30)) as f32 + 0.5),
            1 => a[a.len() - 1] * (rng.next() % 64) as f32 / 8.0,
            _ => pick(&mut rng),
        });
    }
    let n = a.len();
    let run = |kind| {
        let mut y = vec![0f32; n];
        let sizes = [n];
        let (a, b) = (View::of_slice(&a, &sizes, &[1]), View::of_slice(&b, &sizes, &[1]));
        binary(kind, &a, &b, &mut ViewMut::of_slice(&mut y, &sizes, &[1])).unwrap();
        y
    };
    let rounded: [(K, fn(f64, f64) -> f64); 3] = [(K::Pow, f64::powf), (K::Atan2, f64::atan2), (K::Hypot, f64::hypot)];
    for (kind, exact) in rounded {
        let y = run(kind);
        for i in 0..n {
            let want = exact(a[i] as f64, b[i] as f64);
            assert!(ulps(y[i], want) < 0.51, "{kind:?}({:e}, {:e}) = {:e}, not {want:e}", a[i], b[i], y[i]);
        }
    }
    let y = run(K::LogAddExp);
    for i in 0..n {
        let (x, z) = (a[i] as f64, b[i] as f64);
        let top = if x.is_nan() || x > z { x } else { z };
        let want = if x == z && x.is_infinite() { x } else { top + (-(x - z).abs()).exp().ln_1p() };
        // What is added has an error of its own, of which little is left of a large sum.
        let close = ulps(y[i], want) < 2.0 || (y[i] as f64 - want).abs() < 2e-7;
        assert!(close, "logaddexp({x:e}, {z:e}) = {:e}, not {want:e}", y[i]);
    }
    let (fmod, remainder, quotient) = (run(K::Fmod), run(K::Remainder), run(K::FloorDivide));
    for i in 0..n {
        let (a, b) = (a[i], b[i]);
        let r = a % b;
        let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
        assert!(same(fmod[i], r), "fmod({a:e}, {b:e}) = {:e}, not {r:e}", fmod[i]);
        let signed = if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r };
        assert!(same(remainder[i], signed), "remainder({a:e}, {b:e}) = {:e}, not {signed:e}", remainder[i]);
        let want = if b == 0.0 {
            a / b
        } else {
            let q = (a - r) / b;
            let q = if r != 0.0 && (r < 0.0) != (b < 0.0) { q - 1.0 } else { q };
            if q == 0.0 { 0f32.copysign(a / b) } else { q.floor() + (q - q.floor() > 0.5) as u8 as f32 }
        };
        assert!(same(quotient[i], want), "floor_divide({a:e}, {b:e}) = {:e}, not {want:e}", quotient[i]);
    }
}

/// erf by its continued series, in f64.
fn libm_erf(x: f64) -> f64 {
    if !(x.abs() < 6.0) {
        return if x.is_nan() { x } else { 1f64.copysign(x) };
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-18 * sum.abs() && term != 0.0 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

#[test]
fn copies_convert_between_all_dtypes() {
    for from in real_dtypes() {
        for to in real_dtypes() {
            for (sizes, strides) in layouts() {
                for so in &strides[..3] {
                    for sa in &strides[..2] {
                        let a = Array::random(from, &sizes, sa, 5);
                        let mut out = Array::new(to, &sizes, so);
                        copy(&a.view(), &mut out.view_mut());
                        for (x, r) in a.get().iter().zip(out.get()) {
                            assert_eq!(r, round_to(*x, to), "{from:?} -> {to:?}: {x}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn halves_convert_bit_for_bit() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let n = all.len();
    let mut wide = vec![0f32; n];
    copy(&View::of_slice(&all, &[n], &[1]), &mut ViewMut::of_slice(&mut wide, &[n], &[1]));
    let mut back = vec![f16::ZERO; n];
    copy(&View::of_slice(&wide, &[n], &[1]), &mut ViewMut::of_slice(&mut back, &[n], &[1]));
    for i in 0..n {
        assert!(all[i].to_f32() == wide[i] || wide[i].is_nan() == all[i].is_nan() && wide[i].is_nan());
        assert!(back[i] == all[i] || all[i].is_nan() && back[i].is_nan());
    }
    let x: Vec<f32> = (0..500_000u32).map(|i| f32::from_bits(i.wrapping_mul(8_597))).collect();
    let n = x.len();
    let (mut h, mut b) = (vec![f16::ZERO; n], vec![bf16::ZERO; n]);
    copy(&View::of_slice(&x, &[n], &[1]), &mut ViewMut::of_slice(&mut h, &[n], &[1]));
    copy(&View::of_slice(&x, &[n], &[1]), &mut ViewMut::of_slice(&mut b, &[n], &[1]));
    for i in 0..n {
        assert!(
            x[i].is_nan() && h[i].is_nan() && b[i].is_nan()
                || h[i] == f16::from_f32(x[i]) && b[i] == bf16::from_f32(x[i]),
            "{}",
            x[i]
        );
    }
}

#[test]
fn reductions_on_every_dtype_layout_and_mask() {
    for dtype in real_dtypes() {
        for (sizes, strides) in layouts() {
            for sa in &strides {
                let x = Array::random(dtype, &sizes, sa, 6);
                let v = x.get();
                for bits in 0..1u32 << sizes.len() {
                    let mask: Vec<bool> = (0..sizes.len()).map(|d| bits >> d & 1 == 1).collect();
                    let kept: Vec<usize> = (0..sizes.len()).filter(|&d| !mask[d]).map(|d| sizes[d]).collect();
                    let length: usize = (0..sizes.len()).filter(|&d| mask[d]).map(|d| sizes[d]).product();
                    let sum_dtype = if dtype.is_float() { dtype } else { DType::I64 };
                    let mut want = vec![(0.0, f64::NEG_INFINITY, false, 0.0); kept.iter().product()];
                    for (i, v) in v.iter().enumerate() {
                        let (mut rest, mut at, mut step) = (i, 0, 1);
                        for d in (0..sizes.len()).rev() {
                            let k = rest % sizes[d];
                            rest /= sizes[d];
                            if !mask[d] {
                                at += k * step;
                                step *= sizes[d];
                            }
                        }
                        let w: &mut (f64, f64, bool, f64) = &mut want[at];
                        *w = (w.0 + v, w.1.max(*v), w.2 | (*v != 0.0), w.3 + v.abs());
                    }
                    let c = contiguous(&kept);
                    let mut sum = Array::new(sum_dtype, &kept, &c);
                    reduce(ReduceKind::Sum, &x.view(), &mask, &mut sum.view_mut()).unwrap();
                    let mut any = Array::new(DType::Bool, &kept, &c);
                    reduce(ReduceKind::Any, &x.view(), &mask, &mut any.view_mut()).unwrap();
                    let (sum, any) = (sum.get(), any.get());
                    let what = format!("{dtype:?} {sizes:?} {sa:?} {mask:?}");
                    let eps = match dtype {
                        DType::F16 => 1e-3,
                        DType::BF16 => 8e-3,
                        _ => 1e-6,
                    };
                    for i in 0..want.len() {
                        assert!(
                            (sum[i] - want[i].0).abs() <= eps * want[i].0.abs() + 1e-6 * want[i].3,
                            "{what}: {} not {}",
                            sum[i],
                            want[i].0
                        );
                        assert_eq!(any[i] != 0.0, want[i].2, "{what}");
                    }
                    if length > 0 {
                        let mut max = Array::new(dtype, &kept, &c);
                        reduce(ReduceKind::Max, &x.view(), &mask, &mut max.view_mut()).unwrap();
                        for (a, b) in max.get().iter().zip(&want) {
                            assert_eq!(*a, b.1, "{what}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn empty_reductions_give_the_identity() {
    let x: [f32; 0] = [];
    for (kind, want) in [(ReduceKind::Sum, 0.0), (ReduceKind::Prod, 1.0), (ReduceKind::Max, f32::NEG_INFINITY)] {
        let mut out = [5f32; 3];
        reduce(
            kind,
            &View::of_slice(&x, &[3, 0], &[1, 1]),
            &[false, true],
            &mut ViewMut::of_slice(&mut out, &[3], &[1]),
        )
        .unwrap();
        assert_eq!(out, [want; 3]);
    }
    let mut out = [false; 1];
    reduce(ReduceKind::All, &View::of_slice(&x, &[0], &[1]), &[true], &mut ViewMut::of_slice(&mut out, &[], &[]))
        .unwrap();
    assert!(out[0]);
}

#[test]
fn long_f32_sums_stay_exact_to_a_few_ulp() {
    let n = 3_000_001;
    let x = vec![0.1f32; n];
    let mut out = [0f32];
    reduce(ReduceKind::Sum, &View::of_slice(&x, &[n], &[1]), &[true], &mut ViewMut::of_slice(&mut out, &[], &[]))
        .unwrap();
    let want = 0.1f32 as f64 * n as f64;
    assert!((out[0] as f64 / want - 1.0).abs() < 3e-7, "{} {want}", out[0]);
}

#[test]
fn nan_wins_extremes_and_positions() {
    let x = [1.0f32, f32::NAN, 3.0, f32::NAN];
    let v = View::of_slice(&x, &[4], &[1]);
    let (mut m, mut at) = ([0f32], [0i64]);
    for max in [true, false] {
        let kind = if max { ReduceKind::Max } else { ReduceKind::Min };
        reduce(kind, &v, &[true], &mut ViewMut::of_slice(&mut m, &[], &[])).unwrap();
        arg_reduce(max, &v, 0, &mut ViewMut::of_slice(&mut at, &[], &[])).unwrap();
        assert!(m[0].is_nan() && at[0] == 1);
    }
}

#[test]
fn variance_and_mean() {
    let x: Vec<f32> = (0..1200).map(|i| 1e4 + (i % 7) as f32).collect();
    let (mut m, mut v) = ([0f32; 3], [0f32; 3]);
    var(
        &View::of_slice(&x, &[400, 3], &[3, 1]),
        &[true, false],
        1.0,
        Some(&mut ViewMut::of_slice(&mut m, &[3], &[1])),
        &mut ViewMut::of_slice(&mut v, &[3], &[1]),
    )
    .unwrap();
    for c in 0..3 {
        let col: Vec<f64> = (0..400).map(|r| x[r * 3 + c] as f64).collect();
        let mean = col.iter().sum::<f64>() / 400.0;
        let want = col.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 399.0;
        assert!((m[c] as f64 - mean).abs() < 2e-3 && (v[c] as f64 / want - 1.0).abs() < 1e-6);
    }
}

#[test]
fn scans_run_along_their_dimension() {
    let x = [1i32, 5, 2, 4, 4, 3];
    let v = View::of_slice(&x, &[2, 3], &[3, 1]);
    let mut out = [0i64; 6];
    cumsum(&v, 1, &mut ViewMut::of_slice(&mut out, &[2, 3], &[3, 1])).unwrap();
    assert_eq!(out, [1, 6, 8, 4, 8, 11]);
    cumprod(&v, 0, &mut ViewMut::of_slice(&mut out, &[2, 3], &[3, 1])).unwrap();
    assert_eq!(out, [1, 5, 2, 4, 20, 6]);
    let (mut m, mut at) = ([0i32; 6], [0i64; 6]);
    cummax(&v, 1, &mut ViewMut::of_slice(&mut m, &[2, 3], &[3, 1]), &mut ViewMut::of_slice(&mut at, &[2, 3], &[3, 1]));
    assert_eq!((m, at), ([1, 5, 5, 4, 4, 4], [0, 1, 1, 0, 1, 1]));
    let y = [f32::NEG_INFINITY, 1000.0, 1000.0];
    let mut l = [0f32; 3];
    logcumsumexp(&View::of_slice(&y, &[3], &[1]), 0, &mut ViewMut::of_slice(&mut l, &[3], &[1])).unwrap();
    assert_eq!(l, [f32::NEG_INFINITY, 1000.0, 1000.0 + std::f32::consts::LN_2]);
}

#[test]
fn creation() {
    let mut a = [0i64; 4];
    arange(Scalar::Int(3), Scalar::Int(-2), &mut ViewMut::of_slice(&mut a, &[4], &[1]));
    assert_eq!(a, [3, 1, -1, -3]);
    let mut l = [0f32; 5];
    linspace(0.0, 1.0, &mut ViewMut::of_slice(&mut l, &[5], &[1]));
    assert_eq!(l, [0.0, 0.25, 0.5, 0.75, 1.0]);
    let mut e = [7f32; 6];
    eye(&mut ViewMut::of_slice(&mut e, &[2, 3], &[3, 1]));
    assert_eq!(e, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let x = [1i32, 2, 3, 4, 5, 6];
    let mut t = [0i32; 6];
    tril(&View::of_slice(&x, &[2, 3], &[3, 1]), 0, &mut ViewMut::of_slice(&mut t, &[2, 3], &[3, 1]));
    assert_eq!(t, [1, 0, 0, 4, 5, 0]);
    triu(&View::of_slice(&x, &[2, 3], &[3, 1]), 1, &mut ViewMut::of_slice(&mut t, &[2, 3], &[3, 1]));
    assert_eq!(t, [0, 2, 3, 0, 0, 6]);
}

#[test]
fn a_step_into_other_arrays_is_the_step_in_place() {
    let n = 40_000;
    let (s, t) = ([n], [1]);
    let numbers = |by: usize| -> Vec<f32> { (0..n).map(|i| (i * by % 1009 + 1) as f32 / 1009.0).collect() };
    let (old, g) = ([numbers(3), numbers(5), numbers(7)], numbers(11));
    let g = View::of_slice(&g, &s, &t);
    let step = AdamW {
        lr: 0.1,
        beta1: 0.9,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.01,
        decoupled: true,
        maximize: false,
        bias1: 0.1,
        bias2_sqrt: 0.1,
    };
    let run = |arrays: &mut [Vec<f32>; 3], from: [Option<&View>; 3]| {
        let [mut p, mut m, mut v] = arrays.each_mut().map(|x| ViewMut::of_slice(x, &s, &t));
        adamw_step(&mut p, &g, &mut m, &mut v, from, &step).unwrap();
    };
    let mut want = old.clone();
    run(&mut want, [None; 3]);
    assert!(want.iter().zip(&old).all(|(want, old)| want != old));
    let from = old.each_ref().map(|x| View::of_slice(x, &s, &t));
    // All from elsewhere, and only the parameter and the squares.
    let mut new = [vec![9.0; n], vec![9.0; n], vec![9.0; n]];
    run(&mut new, from.each_ref().map(Some));
    assert!(new == want);
    let mut new = [vec![9.0; n], old[1].clone(), vec![9.0; n]];
    run(&mut new, [Some(&from[0]), None, Some(&from[2])]);
    assert!(new == want);
}

#[test]
fn optimiser_steps_follow_their_formulas() {
    let n = 1000;
    let (mut p, g) = (vec![1f32; n], vec![0.5f32; n]);
    let (mut m, mut v) = (vec![0f32; n], vec![0f32; n]);
    let step = AdamW {
        lr: 0.1,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.01,
        decoupled: true,
        maximize: false,
        bias1: 0.1,
        bias2_sqrt: 0.001f64.sqrt(),
    };
    let (s, t) = ([n], [1]);
    adamw_step(
        &mut ViewMut::of_slice(&mut p, &s, &t),
        &View::of_slice(&g, &s, &t),
        &mut ViewMut::of_slice(&mut m, &s, &t),
        &mut ViewMut::of_slice(&mut v, &s, &t),
        [None; 3],
        &step,
    )
    .unwrap();
    assert!(p.iter().all(|p| (p - (0.999 - 0.1)).abs() < 1e-5), "{}", p[0]);
    let mut b = vec![f32::NAN; n];
    let sgd =
        Sgd { lr: 0.1, momentum: 0.9, dampening: 0.0, weight_decay: 0.0, nesterov: true, maximize: false, first: true };
    let before = p[0];
    sgd_step(
        &mut ViewMut::of_slice(&mut p, &s, &t),
        &View::of_slice(&g, &s, &t),
        Some(&mut ViewMut::of_slice(&mut b, &s, &t)),
        &sgd,
    )
    .unwrap();
    assert!((p[0] - (before - 0.1 * (0.5 + 0.45))).abs() < 1e-6 && b[0] == 0.5);
}

#[test]
fn fused_kernels_follow_their_formulas() {
    let x: Vec<f32> = (0..800).map(|i| (i as f32 - 400.0) / 60.0).collect();
    let n = x.len();
    let (s, t) = ([n], [1]);
    let v = View::of_slice(&x, &s, &t);
    let mut y = vec![0f32; n];
    let near = |y: &[f32], f: &dyn Fn(f64) -> f64| {
        for (x, y) in x.iter().zip(y) {
            assert!(
                (*y as f64 - f(*x as f64)).abs() < 1e-6 * (1.0 + f(*x as f64).abs()),
                "{x}: {y} not {}",
                f(*x as f64)
            );
        }
    };
    let phi = |x: f64| 0.5 * (1.0 + libm_erf(x / 2f64.sqrt()));
    gelu(&v, false, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x * phi(x));
    gelu_backward(&v, &v, false, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x * (phi(x) + x * (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()));
    let tanh_gelu =
        |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh());
    gelu(&v, true, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &tanh_gelu);
    gelu_backward(&v, &v, true, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    // Far out 1 + tanh cancels in f32, as it does in PyTorch.
    for (x, y) in x.iter().map(|x| *x as f64).zip(&y) {
        let want = x * (tanh_gelu(x + 1e-6) - tanh_gelu(x - 1e-6)) / 2e-6;
        assert!((*y as f64 - want).abs() < 2e-5 * (1.0 + want.abs()), "{x}: {y} not {want}");
    }
    silu(&v, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x / (1.0 + (-x).exp()));
    clamp(&v, Some(-1.0), Some(2.0), &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x.clamp(-1.0, 2.0));
    add_scaled(&v, &v, -0.5, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x * 0.5);
    threshold_backward(&v, &v, 0.0, &mut ViewMut::of_slice(&mut y, &s, &t)).unwrap();
    near(&y, &|x| x.max(0.0));
    let c: Vec<bool> = x.iter().map(|x| *x > 1.0).collect();
    let one = [9f32];
    select(&View::of_slice(&c, &s, &t), &v, &View::of_slice(&one, &s, &[0]), &mut ViewMut::of_slice(&mut y, &s, &t));
    near(&y, &|x| if x > 1.0 { x } else { 9.0 });
}
