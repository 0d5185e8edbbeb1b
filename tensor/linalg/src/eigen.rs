//! Functions that `faer` computes: Cholesky factors, triangular solves, eigenvalues and singular values.

use crate::columns::Columns;
use crate::memory;
use crate::number::{Eigen, Number};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self as faer_svd, ComputeSvdVectors};
use faer::linalg::triangular_solve as triangular;
use faer::traits::RealField;
use faer::{ColMut, MatMut, MatRef, Par};
use num_complex::Complex;
use num_traits::Float;

/// Call `f` with scratch memory.
fn with_memory<R>(needs: StackReq, f: impl FnOnce(&mut MemStack) -> R) -> R {
    match MemBuffer::try_new(needs) {
        Ok(mut memory) => f(MemStack::new(&mut memory)),
        Err(_) => memory::give_up(needs.unaligned_bytes_required()),
    }
}

fn diagonal<T>(of: &mut [T]) -> DiagMut<'_, T> {
    ColMut::from_slice_mut(of).as_diagonal_mut()
}

/// Compute `L` with `a = L L^H` and zeros above its diagonal, in place of `a`. Elements of `a` above the diagonal are
/// not read. Return zero, or the order of the first leading minor that is not positive.
pub fn cholesky<T: Number>(a: &mut [T], n: usize) -> i32 {
    let mut c = Columns::from_rows(a, n, n);
    if !c.data.iter().all(is_finite) {
        let info = cholesky_by_columns(&mut c, n);
        for j in 0..n {
            c.column_mut(j)[..j].fill(T::ZERO);
        }
        c.write_rows(a);
        return info;
    }
    let result = with_memory(llt::cholesky_in_place_scratch::<T>(n, Par::Seq, Default::default()), |stack| {
        llt::cholesky_in_place(c.view_mut(), Default::default(), Par::Seq, stack, Default::default())
    });
    for j in 0..n {
        c.column_mut(j)[..j].fill(T::ZERO);
    }
    c.write_rows(a);
    match result {
        Ok(_) => 0,
        Err(llt::LltError::NonPositivePivot { index }) => index as i32 + 1,
    }
}

/// [`cholesky`] as it is defined, one column after the other. A block method would spread an infinity to all elements.
fn cholesky_by_columns<T: Number>(c: &mut Columns<T>, n: usize) -> i32 {
    for j in 0..n {
        let mut pivot = c.get(j, j).re();
        for k in 0..j {
            let l = c.get(j, k);
            pivot -= (l * l.conjugated()).re();
        }
        // NaN is not positive either.
        let is_positive = pivot > T::Part::ZERO;
        if !is_positive {
            return j as i32 + 1;
        }
        let root = Float::sqrt(pivot);
        *c.at(j, j) = T::real(root);
        for i in j + 1..n {
            let mut v = c.get(i, j);
            for k in 0..j {
                v -= c.get(i, k) * c.get(j, k).conjugated();
            }
            *c.at(i, j) = v / T::real(root);
        }
    }
    0
}

/// Solve `a x = b` for a triangular `a`, with `x` in place of `b: (n, k)`. `upper` chooses the triangle. With `unit`,
/// the diagonal is ones and is not read.
pub fn solve_triangular<T: Number>(a: &[T], b: &mut [T], n: usize, k: usize, upper: bool, unit: bool) {
    if n == 0 || k == 0 {
        return;
    }
    let a = MatRef::from_row_major_slice(a, n, n);
    let b = MatMut::from_row_major_slice_mut(b, n, k);
    match (upper, unit) {
        (false, false) => triangular::solve_lower_triangular_in_place(a, b, Par::Seq),
        (false, true) => triangular::solve_unit_lower_triangular_in_place(a, b, Par::Seq),
        (true, false) => triangular::solve_upper_triangular_in_place(a, b, Par::Seq),
        (true, true) => triangular::solve_unit_upper_triangular_in_place(a, b, Par::Seq),
    }
}

/// Compute the eigenvalues, in ascending order, of a Hermitian matrix given by its lower (or upper) triangle `a`.
/// Optionally compute its eigenvectors as columns. Return whether they converged.
pub fn eigh<T: Number>(a: &[T], n: usize, upper: bool, values: &mut [T::Part], vectors: Option<&mut [T]>) -> bool {
    if n == 0 {
        // Return early, because faer subtracts one from the size of a complex matrix.
        return true;
    }
    let mut c = Columns::from_rows(a, n, n);
    for j in 0..n {
        *c.at(j, j) = T::real(c.get(j, j).re());
        for i in j + 1..n {
            let (to, from) = if upper { ((i, j), (j, i)) } else { ((j, i), (i, j)) };
            *c.at(to.0, to.1) = c.get(from.0, from.1).conjugated();
        }
    }
    if !c.data.iter().all(is_finite) {
        return false;
    }
    let scale = scale_of(&c.data);
    if let Some(scale) = scale {
        c.data.iter_mut().for_each(|v| *v = times(*v, scale));
    }
    let compute = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let mut w = memory::filled(T::ZERO, n);
    let mut u = vectors.is_some().then(|| Columns::zeros(n, n));
    let needs = evd::self_adjoint_evd_scratch::<T>(n, compute, Par::Seq, Default::default());
    let done = with_memory(needs, |stack| {
        let u = u.as_mut().map(Columns::view_mut);
        evd::self_adjoint_evd(c.view(), diagonal(&mut w), u, Par::Seq, stack, Default::default())
    });
    for (value, w) in values.iter_mut().zip(&w) {
        *value = scale.map_or(w.re(), |scale| w.re() / scale);
    }
    if let (Some(out), Some(u)) = (vectors, u) {
        u.write_rows(out);
    }
    done.is_ok()
}

fn is_finite<T: Number>(v: &T) -> bool {
    Float::is_finite(v.re()) && Float::is_finite(v.im())
}

fn times<T: Number>(v: T, by: T::Part) -> T {
    T::of(v.re() * by, v.im() * by)
}

/// Return the power of two that brings the largest element near one, if squares of elements would leave the range of
/// their type.
fn scale_of<T: Number>(a: &[T]) -> Option<T::Part> {
    let largest =
        a.iter().fold(T::Part::ZERO, |m, v| Float::max(m, Float::max(Float::abs(v.re()), Float::abs(v.im()))));
    let safe = Float::sqrt(<T::Part as Float>::min_positive_value()) / <T::Part as Float>::epsilon();
    if largest == T::Part::ZERO || largest >= safe && largest <= T::Part::ONE / safe {
        return None;
    }
    // A power of two changes only the exponent of the result. Its inverse must be finite too.
    let most = Float::floor(Float::log2(<T::Part as Float>::max_value()));
    Some(Float::exp2(Float::min(-Float::floor(Float::log2(largest)), most - T::Part::ONE)))
}

/// Compute `a = u s vh` for `a: (m, n)`: the singular values in descending order, and optionally the vectors. There are
/// as many vectors as values, or with `full` all of them. Return whether they converged.
pub fn svd<T: Number>(
    a: &[T],
    m: usize,
    n: usize,
    full: bool,
    s: &mut [T::Part],
    vectors: Option<(&mut [T], &mut [T])>,
) -> bool {
    if a.iter().any(|v| v.re().is_nan() || v.im().is_nan()) {
        return false;
    }
    if !a.iter().all(is_finite) {
        // As in LAPACK, infinities have no singular values, but that is not a failure.
        let nan = <T::Part as Float>::nan();
        s.fill(nan);
        if let Some((u, vh)) = vectors {
            u.fill(T::real(nan));
            vh.fill(T::real(nan));
        }
        return true;
    }
    let scale = scale_of(a);
    let scaled: Option<Vec<T>> = scale.map(|scale| memory::collect(a.len(), a.iter().map(|&v| times(v, scale))));
    let a = scaled.as_deref().unwrap_or(a);
    let c = Columns::from_rows(a, m, n);
    let compute = match (&vectors, full) {
        (None, _) => ComputeSvdVectors::No,
        (_, false) => ComputeSvdVectors::Thin,
        (_, true) => ComputeSvdVectors::Full,
    };
    let few = m.min(n);
    let mut w = memory::filled(T::ZERO, few);
    let mut parts = vectors
        .is_some()
        .then(|| (Columns::zeros(m, if full { m } else { few }), Columns::<T>::zeros(n, if full { n } else { few })));
    let needs = faer_svd::svd_scratch::<T>(m, n, compute, compute, Par::Seq, Default::default());
    let done = with_memory(needs, |stack| {
        let (u, v) = match &mut parts {
            Some((u, v)) => (Some(u.view_mut()), Some(v.view_mut())),
            None => (None, None),
        };
        faer_svd::svd(c.view(), diagonal(&mut w), u, v, Par::Seq, stack, Default::default())
    });
    for (s, w) in s.iter_mut().zip(&w) {
        *s = scale.map_or(w.re(), |scale| w.re() / scale);
    }
    if let (Some((u_out, vh_out)), Some((u, v))) = (vectors, parts) {
        u.write_rows(u_out);
        // The rows of vh are the conjugated columns of v.
        for (out, v) in vh_out.iter_mut().zip(&v.data) {
            *out = v.conjugated();
        }
    }
    done.is_ok()
}

/// Compute the eigenvalues of `a`, and optionally its eigenvectors as columns of length one. Return whether they
/// converged.
pub fn eig<T: Number>(
    a: &[T],
    n: usize,
    values: &mut [Complex<T::Part>],
    vectors: Option<&mut [Complex<T::Part>]>,
) -> bool {
    if !a.iter().all(|v| v.modulus().is_finite()) {
        return false;
    }
    let c = Columns::from_rows(a, n, n);
    let Some((w, mut v)) = T::eigen(&c.data, n, vectors.is_some()) else { return false };
    values.copy_from_slice(&w);
    let Some(out) = vectors else { return true };
    for column in v.chunks_exact_mut(n.max(1)) {
        let length = column.iter().fold(T::Part::ZERO, |s, v| s.hypot(v.re.hypot(v.im)));
        // Make the greatest element real.
        let greatest =
            column.iter().copied().fold(Complex::new(T::Part::ZERO, T::Part::ZERO), |best: Complex<T::Part>, v| {
                if v.re.hypot(v.im) > best.re.hypot(best.im) { v } else { best }
            });
        let size = greatest.re.hypot(greatest.im);
        if length > T::Part::ZERO && size > T::Part::ZERO {
            let turn = match greatest.im == T::Part::ZERO {
                true => Complex::new(T::Part::ONE / length, T::Part::ZERO),
                false => Complex::new(greatest.re / size / length, -greatest.im / size / length),
            };
            for v in column {
                *v *= turn;
            }
        }
    }
    for i in 0..n {
        for j in 0..n {
            out[i * n + j] = v[j * n + i];
        }
    }
    true
}

fn compute(vectors: bool) -> ComputeEigenvectors {
    if vectors { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No }
}

pub(crate) fn of_real<P: Number<Part = P> + Float + RealField>(a: &[P], n: usize, vectors: bool) -> Option<Eigen<P>> {
    if n == 0 {
        return Some((Vec::new(), Vec::new()));
    }
    let (mut re, mut im) = (memory::filled(P::ZERO, n), memory::filled(P::ZERO, n));
    let mut u = memory::filled(P::ZERO, if vectors { n * n } else { 0 });
    let needs = evd::evd_scratch::<P>(n, ComputeEigenvectors::No, compute(vectors), Par::Seq, Default::default());
    with_memory(needs, |stack| {
        let u = vectors.then(|| MatMut::from_column_major_slice_mut(&mut u, n, n));
        let a = MatRef::from_column_major_slice(a, n, n);
        evd::evd_real(a, diagonal(&mut re), diagonal(&mut im), None, u, Par::Seq, stack, Default::default())
    })
    .ok()?;
    let values = memory::collect(n, re.iter().zip(&im).map(|(&re, &im)| Complex { re, im }));
    // Two columns hold the parts of one vector. Its conjugate belongs to the conjugate value.
    let mut v = memory::filled(Complex::new(P::ZERO, P::ZERO), u.len());
    let mut j = 0;
    while vectors && j < n {
        let is_pair = im[j] != P::ZERO && j + 1 < n;
        for i in 0..n {
            if is_pair {
                let (re, im) = (u[j * n + i], u[(j + 1) * n + i]);
                v[j * n + i] = Complex { re, im };
                v[(j + 1) * n + i] = Complex { re, im: -im };
            } else {
                v[j * n + i] = Complex { re: u[j * n + i], im: P::ZERO };
            }
        }
        j += if is_pair { 2 } else { 1 };
    }
    Some((values, v))
}

pub(crate) fn of_complex<P>(a: &[Complex<P>], n: usize, vectors: bool) -> Option<Eigen<P>>
where
    P: Float + RealField,
    Complex<P>: Number<Part = P>,
{
    if n == 0 {
        return Some((Vec::new(), Vec::new()));
    }
    let mut w = memory::filled(Complex::<P>::ZERO, n);
    let mut v = memory::filled(Complex::<P>::ZERO, if vectors { n * n } else { 0 });
    let needs =
        evd::evd_scratch::<Complex<P>>(n, ComputeEigenvectors::No, compute(vectors), Par::Seq, Default::default());
    with_memory(needs, |stack| {
        let v = vectors.then(|| MatMut::from_column_major_slice_mut(&mut v, n, n));
        let a = MatRef::from_column_major_slice(a, n, n);
        evd::evd_cplx(a, diagonal(&mut w), None, v, Par::Seq, stack, Default::default())
    })
    .ok()?;
    Some((w, v))
}
