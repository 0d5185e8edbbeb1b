//! Tests of neural-network kernels against naive references and finite differences, for all dtypes, strided arrays and
//! edge cases.

#[path = "../levels/mod.rs"]
mod levels;

use torchtpu_kernels::{Element, KernelError, View, ViewMut, bf16, f16};

/// An array in memory, with any strides.
#[derive(Clone)]
struct Array<E> {
    data: Vec<E>,
    sizes: Vec<usize>,
    strides: Vec<usize>,
}

/// Array of the references.
type Nd = Array<f64>;

fn dense(sizes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; sizes.len()];
    for d in (0..sizes.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * sizes[d + 1];
    }
    strides
}

impl<E: Element> Array<E> {
    fn of(data: Vec<E>, sizes: &[usize]) -> Self {
        assert_eq!(data.len(), sizes.iter().product::<usize>());
        Array { data, sizes: sizes.to_vec(), strides: dense(sizes) }
    }
    fn zeros(sizes: &[usize]) -> Self {
        Self::of(vec![E::from_f64(0.0); sizes.iter().product()], sizes)
    }
    /// Return an array of filler values, which show the elements that were not overwritten.
    fn garbage(sizes: &[usize]) -> Self {
        Self::of(vec![E::from_f64(77.0); sizes.iter().product()], sizes)
    }
    /// Return an array whose dimensions are stored in reverse order, with gaps between neighbours.
    fn strided(sizes: &[usize]) -> Self {
        let mut strides = vec![2; sizes.len()];
        for d in 1..sizes.len() {
            strides[d] = strides[d - 1] * sizes[d - 1].max(1);
        }
        let len = 2 * sizes.iter().product::<usize>().max(1);
        Array { data: vec![E::from_f64(77.0); len], sizes: sizes.to_vec(), strides }
    }
    fn numel(&self) -> usize {
        self.sizes.iter().product()
    }
    fn at(&self, mut i: usize) -> usize {
        let mut offset = 0;
        for (n, s) in self.sizes.iter().zip(&self.strides).rev() {
            offset += i % n * s;
            i /= n;
        }
        offset
    }
    fn cast<F: Element>(&self, strided: bool) -> Array<F> {
        let mut out = if strided { Array::<F>::strided(&self.sizes) } else { Array::<F>::zeros(&self.sizes) };
        for i in 0..self.numel() {
            let at = out.at(i);
            out.data[at] = F::from_f64(self.data[self.at(i)].to_f64());
        }
        out
    }
    fn nd(&self) -> Nd {
        self.cast(false)
    }
    fn view(&self) -> View<'_> {
        View::of_slice(&self.data, &self.sizes, &self.strides)
    }
    fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut::of_slice(&mut self.data, &self.sizes, &self.strides)
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    /// Return a number in -1..1.
    fn signed(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 30) as f64 - 1.0
    }
    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
    fn nd(&mut self, sizes: &[usize]) -> Nd {
        Nd::of((0..sizes.iter().product()).map(|_| self.signed()).collect(), sizes)
    }
}

#[track_caller]
fn assert_close(got: &Nd, want: &Nd, tolerance: f64, what: &str) {
    assert_eq!(got.sizes, want.sizes, "{what}");
    for i in 0..want.data.len() {
        let (g, w) = (got.data[i], want.data[i]);
        let same = (g.is_nan() && w.is_nan()) || g == w || (g - w).abs() <= tolerance * (1.0 + w.abs());
        assert!(same, "{what}: element {i} is {g}, not {w}");
    }
}

/// Return the error that the rounding of inputs and outputs allows for a dtype.
fn tolerance<E: Element>() -> f64 {
    match E::DTYPE.name() {
        "float64" => 1e-10,
        "float32" => 2e-5,
        "float16" => 4e-3,
        _ => 3e-2,
    }
}

/// Run a generic function for all floating-point dtypes, contiguous and strided.
macro_rules! for_floats {
    ($f:ident) => {
        for strided in [false, true] {
            $f::<f32>(strided);
            $f::<f64>(strided);
            $f::<bf16>(strided);
            $f::<f16>(strided);
        }
    };
}

mod attention;
mod conv;
mod embedding;
mod loss;
mod matmul;
mod norm;
mod pool;
mod softmax;

/// Compare `grad` with central differences of `f` at `x`.
#[track_caller]
fn assert_gradient(x: &Nd, grad: &Nd, f: impl Fn(&Nd) -> f64, what: &str) {
    let mut want = Nd::zeros(&x.sizes);
    for i in 0..x.data.len() {
        let (mut up, mut down) = (x.clone(), x.clone());
        up.data[i] += 1e-6;
        down.data[i] -= 1e-6;
        want.data[i] = (f(&up) - f(&down)) / 2e-6;
    }
    assert_close(grad, &want, 2e-6, what);
}

fn inner(a: &Nd, b: &Nd) -> f64 {
    a.data.iter().zip(&b.data).map(|(a, b)| a * b).sum()
}

fn naive_softmax(x: &Nd, dim: usize, log: bool) -> Nd {
    let (n, step) = (x.sizes[dim], x.strides[dim]);
    let mut out = x.clone();
    for i in 0..x.data.len() {
        if i / step % n == 0 {
            let row: Vec<f64> = (0..n).map(|j| x.data[i + j * step]).collect();
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|v| (v - max).exp()).sum();
            for j in 0..n {
                let v = row[j] - max;
                out.data[i + j * step] = if log { v - sum.ln() } else { v.exp() / sum };
            }
        }
    }
    out
}
