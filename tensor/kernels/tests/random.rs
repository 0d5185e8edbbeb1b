//! Tests of random streams against PyTorch. Each line of `random_goldens.tsv` is a function, a dtype, a case, and a
//! CRC-32. The CRC-32 is of the little-endian bytes, in index order, that PyTorch 2.15 produced for it on the CPU.
//!
//! `TORCHTPU_RANDOM_GOLDENS` names another file of the same format, for a longer run.

use std::collections::BTreeMap;
use torchtpu_kernels::random::*;
use torchtpu_kernels::{DType, KernelError, View, ViewMut, bf16, f16, for_dtype};

/// A tensor of bytes with any layout.
struct Buffer {
    words: Vec<u64>,
    sizes: Vec<usize>,
    strides: Vec<usize>,
    dtype: DType,
}

impl Buffer {
    fn new(dtype: DType, sizes: &[usize], strides: &[usize]) -> Buffer {
        let reach: usize = sizes.iter().zip(strides).map(|(n, s)| n.saturating_sub(1) * s).sum::<usize>() + 1;
        Buffer {
            words: vec![0; (reach * dtype.size_bytes()).div_ceil(8)],
            sizes: sizes.to_vec(),
            strides: strides.to_vec(),
            dtype,
        }
    }
    fn flat(dtype: DType, n: usize) -> Buffer {
        Buffer::new(dtype, &[n], &[1])
    }
    /// Convert values like a C++ cast.
    fn of(dtype: DType, values: &[f64]) -> Buffer {
        let mut b = Buffer::flat(dtype, values.len());
        let v = b.view_mut();
        for_dtype!(dtype, T => for (i, &x) in values.iter().enumerate() {
            // SAFETY: `i` is less than the buffer's number of elements.
            unsafe { v.ptr().cast::<T>().add(i).write(<T as torchtpu_kernels::Element>::from_f64(x)) };
        });
        b
    }
    fn view_mut(&mut self) -> ViewMut<'_> {
        // SAFETY: the buffer was made for these sizes and strides.
        unsafe { ViewMut::new(self.words.as_mut_ptr().cast(), &self.sizes, &self.strides, self.dtype) }
    }
    fn view(&self) -> View<'_> {
        // SAFETY: the buffer was made for these sizes and strides.
        unsafe { View::new(self.words.as_ptr().cast(), &self.sizes, &self.strides, self.dtype) }
    }
    /// Return the bytes in index order.
    fn bytes(&self) -> Vec<u8> {
        let w = self.dtype.size_bytes();
        let all: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let n: usize = self.sizes.iter().product();
        let mut bytes = Vec::with_capacity(n * w);
        for mut i in 0..n {
            let mut offset = 0;
            for d in (0..self.sizes.len()).rev() {
                offset += i % self.sizes[d] * self.strides[d];
                i /= self.sizes[d];
            }
            bytes.extend(&all[offset * w..][..w]);
        }
        bytes
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0, |crc, &b| (0..8).fold(crc ^ u32::from(b), |c, _| (c >> 1) ^ ((c & 1).wrapping_neg() & 0xedb8_8320)))
}

fn dtype(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|d| d.name() == name)
}

/// Return `n` numbers from `a` to `b`, computed like NumPy.
fn linspace(n: usize, a: f64, b: f64) -> Vec<f64> {
    let step = (b - a) / n.saturating_sub(1).max(1) as f64;
    let mut v: Vec<f64> = (0..n).map(|i| i as f64 * step + a).collect();
    if n > 1 {
        v[n - 1] = b;
    }
    v
}

fn weights(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i % 7) as f64 + 0.5) * 0.37).collect()
}

/// Multiply element by element, rounding in the dtype.
fn multiply(x: &Buffer, m: &Buffer) -> Buffer {
    let mut out = Buffer::new(x.dtype, &x.sizes, &x.strides);
    let n: usize = x.sizes.iter().product();
    let (x, m, o) = (x.view(), m.view(), out.view_mut());
    macro_rules! go {
        ($t:ty) => {
            for i in 0..n {
                // SAFETY: the buffers are dense and have `n` elements.
                unsafe {
                    let (a, b) = (x.ptr().cast::<$t>().add(i).read(), m.ptr().cast::<$t>().add(i).read());
                    o.ptr().cast::<$t>().add(i).write(a * b);
                }
            }
        };
    }
    match x.dtype() {
        DType::F64 => go!(f64),
        DType::F32 => go!(f32),
        DType::F16 => go!(f16),
        _ => go!(bf16),
    }
    out
}

/// Return the arguments in parentheses, such as those of `uniform_(-1.0,1.0)`.
fn arguments(function: &str) -> Vec<&str> {
    let inside = function.split_once('(').map_or("", |(_, r)| r.trim_end_matches(')'));
    inside.split(',').collect()
}

fn seed(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(|s| s as u64))
}

/// Return the bytes of a case, or `None` if this crate lacks the function.
fn run(function: &str, d: DType, key: &str) -> Option<Result<Vec<u8>, KernelError>> {
    let args = arguments(function);
    let real = |i: usize| args[i].parse::<f64>().expect("a number");
    let int = |i: usize| args[i].parse::<i64>().expect("an integer");
    let name = function.split('(').next().unwrap_or(function);
    if let Some(op) = function.strip_prefix("noncontig:") {
        return fill_strided(op, d, key);
    }
    if function == "sequence" {
        return None;
    }
    let (n, s) = key.split_once(':')?;
    if let Some(init) = function.strip_prefix("init.") {
        return initialise(init, d, n, seed(s)?);
    }
    let n: usize = n.parse().ok()?;
    let mut g = Generator::new(seed(s)?);
    let g = &mut g;
    if name == "multinomial" {
        let rows = if args.contains(&"2d") { 3 } else { 1 };
        let k = match function {
            "multinomial(repl)" => 50,
            "multinomial(repl,2d)" => 20,
            "multinomial(norepl,k=n/2)" => n.div_ceil(2),
            "multinomial(norepl,k=n)" => n,
            "multinomial(norepl,k=3)" => 3,
            // The key is "k=1", with or without replacement.
            _ => 1,
        };
        let mut table = Buffer::of(d, &weights(n).repeat(rows));
        (table.sizes, table.strides) = (vec![rows, n], vec![n, 1]);
        let mut out = Buffer::new(DType::I64, &[rows, k], &[k, 1]);
        return Some(multinomial(g, &table.view(), args[0] == "repl", &mut out.view_mut()).map(|()| out.bytes()));
    }
    if name == "_sample_dirichlet" {
        let k = if args[0] == "k=4" { 4 } else { 100 };
        let alpha: Vec<f64> = (0..k * n).map(|i| (i % 13) as f64 * 0.37 + 0.05).collect();
        let mut table = Buffer::of(d, &alpha);
        (table.sizes, table.strides) = (vec![n, k], vec![k, 1]);
        let mut out = Buffer::new(d, &[n, k], &[k, 1]);
        return Some(sample_dirichlet(g, &table.view(), &mut out.view_mut()).map(|()| out.bytes()));
    }
    let mut out = Buffer::flat(d, n);
    let o = &mut out.view_mut();
    let done = match name {
        "rand" | "rand_like" => uniform_(g, o, 0.0, 1.0),
        "uniform_" => uniform_(g, o, real(0), real(1)),
        "randn" | "randn_like" => normal_(g, o, 0.0, 1.0),
        "normal_" => normal_(g, o, real(0), real(1)),
        "log_normal_" => log_normal_(g, o, real(0), real(1)),
        "cauchy_" => cauchy_(g, o, real(0), real(1)),
        "exponential_" => exponential_(g, o, real(0)),
        "geometric_" => geometric_(g, o, real(0)),
        "randint" | "randint_like" => randint(g, o, int(0), int(1)),
        "random_" => match args[..] {
            ["-5", "None"] => random_from(g, o, -5),
            ["-2^63", "None"] => random_from(g, o, i64::MIN),
            [""] => {
                random_(g, o);
                Ok(())
            }
            _ => randint(g, o, int(0), int(1)),
        },
        "randperm" => {
            randperm(g, o);
            Ok(())
        }
        "bernoulli_" => bernoulli_(g, o, real(0)),
        "bernoulli" if args[0] == "p tensor" => bernoulli_tensor(g, o, &Buffer::of(d, &linspace(n, 0.0, 1.0)).view()),
        "bernoulli" => bernoulli_(g, o, 0.25),
        "bool.bernoulli_" => {
            let p = if args[0] == "f64 p" { DType::F64 } else { DType::F32 };
            bernoulli_tensor(g, o, &Buffer::of(p, &linspace(n, 0.0, 1.0)).view())
        }
        "poisson" => {
            let (a, b) = if args[0] == "big" { (10.0, 1e6) } else { (0.0, 40.0) };
            poisson(g, &Buffer::of(d, &linspace(n, a, b)).view(), o)
        }
        "binomial" => {
            let count: Vec<f64> = linspace(n, 0.0, 200.0).into_iter().map(f64::floor).collect();
            let prob: Vec<f64> = (0..n).map(|i| (i as f64 * 0.6180339887) % 1.0).collect();
            binomial(g, &Buffer::of(d, &count).view(), &Buffer::of(d, &prob).view(), o)
        }
        "_standard_gamma" => {
            let alpha: Vec<f64> = (0..n).map(|i| (i % 13) as f64 * 0.37 + 0.05).collect();
            standard_gamma(g, &Buffer::of(d, &alpha).view(), o)
        }
        "dropout" => {
            let x: Vec<f64> = (0..n).map(|i| ((i % 31) as f64 - 15.0) * 0.21 + 0.01).collect();
            let done = dropout_mask(g, o, real(0));
            return Some(done.map(|()| multiply(&Buffer::of(d, &x), &out).bytes()));
        }
        _ => return None,
    };
    Some(done.map(|()| out.bytes()))
}

fn fill_strided(op: &str, d: DType, key: &str) -> Option<Result<Vec<u8>, KernelError>> {
    let (layout, s) = key.split_once(':')?;
    let (sizes, strides): (&[usize], &[usize]) = match layout {
        "t" => (&[25, 40], &[1, 25]),
        "t16" => (&[4, 4], &[1, 4]),
        "t6" => (&[3, 2], &[1, 3]),
        "perm3" => (&[5, 3, 4], &[1, 20, 5]),
        "chlast" => (&[2, 3, 4, 5], &[60, 1, 15, 3]),
        "slice" => (&[10, 8], &[60, 3]),
        "col" => (&[17], &[2]),
        _ => return None,
    };
    let mut out = Buffer::new(d, sizes, strides);
    let mut g = Generator::new(seed(s)?);
    let (g, o) = (&mut g, &mut out.view_mut());
    let done = match op {
        "rand" => uniform_(g, o, 0.0, 1.0),
        "uniform_" => uniform_(g, o, -2.0, 3.0),
        "normal_" => normal_(g, o, 0.5, 2.0),
        "randn_like(preserve)" => normal_(g, o, 0.0, 1.0),
        "bernoulli_" => bernoulli_(g, o, 0.3),
        "exponential_" => exponential_(g, o, 1.0),
        "random_" => randint(g, o, 0, 100),
        "log_normal_" => log_normal_(g, o, 1.0, 2.0),
        "cauchy_" => cauchy_(g, o, 0.0, 1.0),
        "geometric_" => geometric_(g, o, 0.2),
        "bernoulli(p)->contig out" => {
            let mut p = Buffer::of(d, &linspace(1000, 0.0, 1.0));
            (p.sizes, p.strides) = (vec![25, 40], vec![1, 25]);
            let mut dense = Buffer::new(d, &[25, 40], &[40, 1]);
            return Some(bernoulli_tensor(g, &mut dense.view_mut(), &p.view()).map(|()| dense.bytes()));
        }
        "poisson->contig out" => {
            let mut rate = Buffer::of(d, &linspace(1000, 0.0, 1.0));
            (rate.sizes, rate.strides) = (vec![25, 40], vec![1, 25]);
            let mut dense = Buffer::new(d, &[25, 40], &[40, 1]);
            return Some(poisson(g, &rate.view(), &mut dense.view_mut()).map(|()| dense.bytes()));
        }
        "dropout (memory order)" => {
            let mut x = Buffer::of(d, &linspace(1000, 0.0, 1.0));
            (x.sizes, x.strides) = (vec![25, 40], vec![1, 25]);
            let done = dropout_mask(g, o, 0.3);
            return Some(done.map(|()| multiply(&x, &out).bytes()));
        }
        _ => return None,
    };
    Some(done.map(|()| out.bytes()))
}

fn initialise(init: &str, d: DType, shape: &str, seed: u64) -> Option<Result<Vec<u8>, KernelError>> {
    let sizes: Vec<usize> = shape.split('x').map(|n| n.parse().expect("a size")).collect();
    let mut out = Buffer::flat(d, sizes.iter().product());
    let mut g = Generator::new(seed);
    let (g, o) = (&mut g, &mut out.view_mut());
    let receptive: usize = sizes[2..].iter().product();
    let (fan_in, fan_out) = ((sizes[1] * receptive) as f64, (sizes[0] * receptive) as f64);
    let done = match init {
        "uniform_" => uniform_(g, o, -0.3, 0.8),
        "normal_" => normal_(g, o, 0.1, 0.02),
        "kaiming_uniform_" => {
            let gain = (2.0 / (1.0 + 5f64.sqrt() * 5f64.sqrt())).sqrt();
            let bound = 3f64.sqrt() * (gain / fan_in.sqrt());
            uniform_(g, o, -bound, bound)
        }
        "kaiming_normal_" => normal_(g, o, 0.0, 2f64.sqrt() / fan_out.sqrt()),
        "xavier_uniform_" => {
            let bound = 3f64.sqrt() * (5.0 / 3.0 * (2.0 / (fan_in + fan_out)).sqrt());
            uniform_(g, o, -bound, bound)
        }
        "xavier_normal_" => normal_(g, o, 0.0, (2.0 / (fan_in + fan_out)).sqrt()),
        "trunc_normal_(reject)" => trunc_normal_(g, o, 0.0, 1.0, -2.0, 2.0),
        "trunc_normal_(.02)" => trunc_normal_(g, o, 0.01, 0.02, -0.03, 0.02),
        "trunc_normal_(tail)" => trunc_normal_(g, o, 0.0, 1.0, 1.5, 2.0),
        "trunc_normal_(narrow)" => trunc_normal_(g, o, 0.0, 1.0, -0.2, 0.1),
        _ => return None,
    };
    Some(done.map(|()| out.bytes()))
}

/// Make twelve calls from one seed: each call starts from the state (words, spare normal number) that the one before
/// left.
fn sequence(d: DType, seed: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut g = Generator::new(seed);
    let mut done = Vec::new();
    type Draw = fn(&mut Generator, &mut ViewMut) -> Result<(), KernelError>;
    let normal: Draw = |g, o| normal_(g, o, 0.0, 1.0);
    let calls: [(&str, usize, Option<DType>, Draw); 12] = [
        ("randn1", 1, None, normal),
        ("randn16", 16, None, normal),
        ("rand3", 3, None, |g, o| uniform_(g, o, 0.0, 1.0)),
        ("normal1(m,s)", 1, None, |g, o| normal_(g, o, 5.0, 3.0)),
        ("randn5", 5, None, normal),
        ("randperm7", 7, Some(DType::I64), |g, o| {
            randperm(g, o);
            Ok(())
        }),
        ("lognormal3", 3, None, |g, o| log_normal_(g, o, 1.0, 2.0)),
        ("bern4", 4, None, |g, o| bernoulli_(g, o, 0.4)),
        ("randn33", 33, None, normal),
        ("randint9", 9, Some(DType::I64), |g, o| randint(g, o, 0, 1 << 40)),
        ("randn2", 2, None, normal),
        ("exp601", 601, None, |g, o| exponential_(g, o, 1.0)),
    ];
    for (name, n, other, draw) in calls {
        let mut out = Buffer::flat(other.unwrap_or(d), n);
        draw(&mut g, &mut out.view_mut()).expect("valid arguments");
        done.push((name, out.bytes()));
    }
    done
}

#[test]
fn streams_equal_pytorch() {
    let text = match std::env::var("TORCHTPU_RANDOM_GOLDENS") {
        Ok(path) => std::fs::read_to_string(path).expect("the goldens named by TORCHTPU_RANDOM_GOLDENS"),
        Err(_) => include_str!("random_goldens.tsv").to_string(),
    };
    // The recorded `f64` values that use libm come from glibc. Other libraries differ in the last bit.
    let own_libm = cfg!(not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")));
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut skipped: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [function, name, key, crc] = fields[..] else { panic!("malformed line: {line}") };
        let want = u32::from_str_radix(crc, 16).expect("a CRC in hexadecimal");
        let got = if function == "generator.get_state" {
            seed(key).map(|s| Generator::new(s).get_state().to_vec())
        } else if function == "sequence" {
            let mut parts = key.splitn(3, ':');
            let (s, _, call) = (parts.next(), parts.next(), parts.next().expect("a call"));
            let all = sequence(dtype(name).expect("a dtype"), s.and_then(seed).expect("a seed"));
            all.into_iter().find(|(n, _)| *n == call).map(|(_, bytes)| bytes)
        } else {
            dtype(name).and_then(|d| run(function, d, key)).map(|r| r.unwrap_or_else(|e| panic!("{line}: {e}")))
        };
        let Some(bytes) = got else {
            *skipped.entry(function).or_default() += 1;
            continue;
        };
        let (right, all) = counts.entry(function).or_default();
        *all += 1;
        if crc32(&bytes) == want || (own_libm && name == "float64") {
            *right += 1;
        } else {
            wrong.push(line.to_string());
        }
    }
    let (right, all) = counts.values().fold((0, 0), |(r, a), c| (r + c.0, a + c.1));
    println!("{right} of {all} cases equal; not run: {skipped:?}");
    assert!(all > 500, "only {all} cases were run");
    assert!(wrong.is_empty(), "{} of {all} cases differ, first: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    if std::env::var_os("TORCHTPU_RANDOM_GOLDENS").is_none() {
        assert!(skipped.is_empty(), "cases that nothing runs: {skipped:?}");
    }
}

#[test]
fn state_survives_a_round_trip_with_its_spare_normal() {
    let mut g = Generator::new(7);
    g.next_normal();
    let mut h = Generator::default();
    h.set_state(&g.get_state()).expect("a valid state");
    assert_eq!(h.initial_seed(), 7);
    for _ in 0..2000 {
        assert_eq!(g.next_normal().to_bits(), h.next_normal().to_bits());
    }
    assert_eq!(g.get_state(), h.get_state());
}

#[test]
fn damaged_states_are_refused() {
    let mut g = Generator::new(3);
    let good = g.get_state();
    assert!(g.set_state(&good[1..]).is_err());
    for (at, byte) in [(8, 0), (12, 0), (17, 9)] {
        let mut bad = good;
        bad[at] = byte;
        assert!(g.set_state(&bad).is_err(), "byte {at}");
    }
    // The state promises words that the block does not hold.
    let mut bad = good;
    bad[8..10].copy_from_slice(&624u16.to_le_bytes());
    bad[16..18].copy_from_slice(&600u16.to_le_bytes());
    assert!(g.set_state(&bad).is_err());
    assert_eq!(g.get_state(), good);
}

#[test]
fn seed_is_remembered_and_differs_each_time() {
    let mut g = Generator::default();
    assert_eq!(g.initial_seed(), DEFAULT_SEED);
    let a = g.seed();
    assert_eq!(g.initial_seed(), a);
    assert_ne!(g.seed(), a);
}

#[test]
fn empty_fills_draw_nothing() {
    let mut g = Generator::new(1);
    let before = g.get_state();
    let mut b = Buffer::new(DType::F32, &[0, 3], &[3, 1]);
    normal_(&mut g, &mut b.view_mut(), 0.0, 1.0).unwrap();
    uniform_(&mut g, &mut b.view_mut(), 0.0, 1.0).unwrap();
    randint(&mut g, &mut b.view_mut(), 0, 9).unwrap();
    trunc_normal_(&mut g, &mut b.view_mut(), 0.0, 1.0, -2.0, 2.0).unwrap();
    assert_eq!(g.get_state(), before);
}

#[test]
fn wrong_arguments_are_refused() {
    let mut g = Generator::new(1);
    let mut b = Buffer::flat(DType::F32, 4);
    let says = |r: Result<(), KernelError>, what: &str| {
        let text = r.expect_err(what).to_string();
        assert!(text.contains(what), "{text}");
    };
    says(normal_(&mut g, &mut b.view_mut(), 0.0, -1.0), "normal expects std >= 0.0, but found std -1");
    says(uniform_(&mut g, &mut b.view_mut(), 2.0, 1.0), "uniform_ expects to return a [from, to) range");
    says(randint(&mut g, &mut b.view_mut(), 3, 3), "random_ expects 'from' to be less than 'to'");
    says(bernoulli_(&mut g, &mut b.view_mut(), 1.5), "bernoulli_ expects p to be in [0, 1], but got p=1.5");
    says(dropout_mask(&mut g, &mut b.view_mut(), -0.1), "dropout probability has to be between 0 and 1");
    says(geometric_(&mut g, &mut b.view_mut(), 1.0), "geometric_ expects p to be in (0, 1)");
    says(exponential_(&mut g, &mut b.view_mut(), 0.0), "exponential_ expects lambda > 0.0");
    let mut ints = Buffer::flat(DType::I64, 4);
    says(normal_(&mut g, &mut ints.view_mut(), 0.0, 1.0), "\"normal_kernel_cpu\" not implemented for 'Long'");
    let zero = Buffer::of(DType::F32, &[0.0, 0.0]);
    says(multinomial(&mut g, &zero.view(), true, &mut ints.view_mut()), "sum of probabilities <= 0");
    let bad = Buffer::of(DType::F32, &[1.0, f64::NAN]);
    says(multinomial(&mut g, &bad.view(), true, &mut ints.view_mut()), "`inf`, `nan` or element < 0");
    says(multinomial(&mut g, &zero.view(), false, &mut ints.view_mut()), "without replacement");
}

#[test]
fn every_second_normal_is_the_spare_of_the_last_pair() {
    let mut g = Generator::new(9);
    let first = g.next_normal();
    let state = g.get_state();
    let mut one = Buffer::flat(DType::F32, 1);
    normal_(&mut g, &mut one.view_mut(), 0.0, 1.0).unwrap();
    // Only the spare number was used, and no word was drawn.
    assert_eq!(g.get_state()[..5016], state[..5016]);
    assert_ne!(f32::from_le_bytes(one.bytes()[..4].try_into().unwrap()), first as f32);
}
