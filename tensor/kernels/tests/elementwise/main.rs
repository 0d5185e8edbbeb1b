//! Tests of element-wise kernels, reductions and scans against plain loops over index arithmetic.

mod accuracy;
mod copy;
mod fused;
#[path = "../levels/mod.rs"]
mod levels;
mod reduce;

use torchtpu_kernels::pointwise::*;
use torchtpu_kernels::*;

/// A generator of pseudorandom numbers that are equal in every run.
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
        // SAFETY: the buffer has eight bytes for each element within the strides.
        unsafe { View::new(self.bytes.as_ptr().cast(), &self.sizes, &self.strides, self.dtype) }
    }
    fn view_mut(&mut self) -> ViewMut<'_> {
        // SAFETY: the buffer has eight bytes for each element within the strides, and the array is borrowed mutably.
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
        let read = |&o: &usize| {
            for_dtype!(self.dtype, T => {
                // SAFETY: `offsets` gives offsets within the buffer.
                unsafe { p.cast::<T>().add(o).read() }.to_f64()
            })
        };
        self.offsets().iter().map(read).collect()
    }
    fn set(&mut self, v: &[f64]) {
        let p = self.bytes.as_mut_ptr();
        for (&o, &v) in self.offsets().iter().zip(v) {
            // SAFETY: `offsets` gives offsets within the buffer.
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

/// Return sizes with strides of an output and two inputs: contiguous, transposed, broadcast, with gaps.
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

/// Return all dtypes but the complex ones, which have their own kernels and tests.
fn real_dtypes() -> impl Iterator<Item = DType> {
    DType::FULL.into_iter().filter(|d| !d.is_complex())
}

#[test]
fn binary_equals_its_reference_for_every_dtype_and_layout() {
    for dtype in real_dtypes() {
        for kind in BinaryKind::ALL {
            if reference(kind, 1.0, 1.0).is_none() || !binary_supports(kind, dtype) || dtype == DType::Bool {
                continue;
            }
            // Test all layouts for one op of each result type, and a few for the others.
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
fn binary_works_in_place_and_on_large_arrays() {
    for dtype in [DType::F32, DType::BF16, DType::I64] {
        for n in [16usize, 700, 100_000] {
            let a = Array::random(dtype, &[n], &[1], 3);
            let mut b = Array::random(dtype, &[n], &[1], 4);
            let want: Vec<f64> = a.get().iter().zip(b.get()).map(|(x, y)| round_to(x - y, dtype)).collect();
            let p = b.bytes.as_mut_ptr().cast::<u8>();
            let (sizes, strides) = ([n], [1]);
            // SAFETY: input and output have exactly the same elements, which kernels allow.
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
fn integers_wrap_and_round_like_python() {
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

/// Return erf by its series, in f64.
fn libm_erf(x: f64) -> f64 {
    if x.is_nan() || x.abs() >= 6.0 {
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
