//! Comparison of gradients with finite differences.

use crate::grad;
use torchtpu_tensor::ops::random::{Distribution, sample};
use torchtpu_tensor::random::Generator;
use torchtpu_tensor::{DType, Device, Error, GradMode, Meta, Result, Tensor, c128, no_grad, warning};

/// Settings of [`gradcheck`] and [`gradgradcheck`]. The defaults are PyTorch's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GradcheckOptions {
    /// Distance by which inputs are moved for a difference.
    pub eps: f64,
    /// Largest absolute error of a gradient.
    pub atol: f64,
    /// Largest relative error of a gradient.
    pub rtol: f64,
    /// Largest difference between two backward passes.
    pub nondet_tol: f64,
    /// Whether gradients must have the dtypes of their inputs.
    pub check_grad_dtypes: bool,
}

impl Default for GradcheckOptions {
    fn default() -> GradcheckOptions {
        GradcheckOptions { eps: 1e-6, atol: 1e-5, rtol: 1e-3, nondet_tol: 0.0, check_grad_dtypes: false }
    }
}

/// Derivatives of the elements of an output (columns) by the elements of an input (rows).
struct Jacobian {
    rows: usize,
    columns: usize,
    /// Values, row by row. Real derivatives have no imaginary parts.
    values: Vec<c128>,
    dtype: DType,
}

impl Jacobian {
    fn zeros(x: &Tensor, y: &Tensor) -> Jacobian {
        let zero = c128::new(0.0, 0.0);
        let (rows, columns) = (x.numel(), y.numel());
        Jacobian { rows, columns, values: vec![zero; rows * columns], dtype: x.dtype() }
    }
    fn at(&mut self, row: usize, column: usize) -> &mut c128 {
        &mut self.values[row * self.columns + column]
    }
    fn is_close(&self, other: &Jacobian, o: &GradcheckOptions) -> bool {
        self.values.iter().zip(&other.values).all(|(a, n)| a == n || (a - n).norm() <= o.atol + o.rtol * n.norm())
    }
    fn distance(&self, other: &Jacobian) -> f64 {
        self.values.iter().zip(&other.values).fold(0.0, |far: f64, (a, b)| {
            let d = (a - b).norm();
            if d.is_nan() { f64::INFINITY } else { far.max(d) }
        })
    }
    fn text(&self) -> Result<String> {
        let x = Tensor::from_slice(&self.values, &[self.rows, self.columns])?;
        let x = if self.dtype.is_complex() { x } else { x.view_as_real()?.select(-1, 0)? };
        Ok(x.to_dtype(self.dtype)?.to_string())
    }
}

/// Return the elements on the host. Real elements have no imaginary part.
fn elements(x: &Tensor) -> Result<Vec<c128>> {
    x.detach().to_vec()
}

fn is_differentiable(x: &Tensor) -> bool {
    x.dtype().is_inexact() && x.requires_grad()
}

fn checked_inputs(inputs: &[Tensor]) -> Result<Vec<usize>> {
    let mut checked = Vec::new();
    for (i, x) in inputs.iter().enumerate().filter(|(_, x)| x.requires_grad()) {
        if x.dtype() != DType::F64 && x.dtype() != DType::C128 {
            warning::warn(&format!(
                "Input #{i} requires gradient and is not a double precision floating point or complex. This check will \
                likely fail if all the inputs are not of double precision floating point or complex. "
            ))?;
        }
        if x.strides().iter().zip(x.dims().iter()).any(|(&s, &n)| s == 0 && n > 1) {
            return Err(Error::runtime(format!(
                "The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are \
                non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous \
                on the input before passing it to gradcheck."
            )));
        }
        checked.push(i);
    }
    if checked.is_empty() {
        return Err(Error::value(
            "gradcheck expects at least one input tensor to require gradient, but none of them have \
            requires_grad=True.",
        ));
    }
    Ok(checked)
}

/// Compute the derivatives of all outputs by one input, by central differences. A complex input is moved along both
/// axes.
fn numerical(run: &dyn Fn() -> Result<Vec<Tensor>>, x: &Tensor, eps: f64) -> Result<Vec<Jacobian>> {
    let data = x.data();
    let before = elements(x)?;
    let put = |values: &[c128]| -> Result<()> {
        let new = Tensor::from_slice(values, x.dims())?;
        let new = if x.dtype().is_complex() { new } else { new.view_as_real()?.select(-1, 0)? };
        no_grad(|| data.copy_(&new.to_dtype(x.dtype())?.to_device(x.place())?)).map(|_| ())
    };
    let measure = || -> Result<Vec<Jacobian>> {
        let outputs = no_grad(run)?;
        let mut all: Vec<Jacobian> = outputs.iter().map(|y| Jacobian::zeros(x, y)).collect();
        let axes = [c128::new(1.0, 0.0), c128::new(0.0, 1.0)];
        let mut moved = before.clone();
        for row in 0..before.len() {
            for axis in &axes[..1 + usize::from(x.dtype().is_complex())] {
                let mut at = |sign: f64| -> Result<Vec<Vec<c128>>> {
                    moved[row] = before[row] + axis * (sign * eps);
                    put(&moved)?;
                    no_grad(run)?.iter().map(elements).collect()
                };
                let (above, below) = (at(1.0)?, at(-1.0)?);
                for (j, (a, b)) in all.iter_mut().zip(above.iter().zip(&below)) {
                    for (column, (a, b)) in a.iter().zip(b).enumerate() {
                        *j.at(row, column) += axis * ((a - b) / (2.0 * eps));
                    }
                }
            }
            moved[row] = before[row];
        }
        Ok(all)
    };
    let found = measure();
    put(&before)?;
    found
}

/// Compute the derivatives of one output by all inputs, by the backward pass.
fn analytical(y: &Tensor, inputs: &[Tensor], o: &GradcheckOptions) -> Result<Vec<Jacobian>> {
    let mut all: Vec<Jacobian> = inputs.iter().map(|x| Jacobian::zeros(x, y)).collect();
    for column in 0..y.numel() {
        let mut weight = vec![0.0f64; y.numel()];
        weight[column] = 1.0;
        let weight = Tensor::from_slice(&weight, y.dims())?.to_dtype(y.dtype())?.to_device(y.place())?;
        let found = grad(std::slice::from_ref(y), inputs, &[Some(weight)], Some(true), false, true)?;
        for ((g, x), j) in found.iter().zip(inputs).zip(&mut all) {
            let Some(g) = g else { continue };
            if g.dims() != x.dims() {
                return Err(Error::runtime("Analytical gradient has incorrect size"));
            }
            if o.check_grad_dtypes && g.dtype() != x.dtype() {
                return Err(Error::runtime("Gradient has dtype mismatch"));
            }
            for (row, v) in elements(g)?.into_iter().enumerate() {
                *j.at(row, column) = v;
            }
        }
    }
    Ok(all)
}

/// The checked part of complex outputs.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    All,
    Imaginary,
    Real,
}

impl Part {
    fn of(self, y: Tensor) -> Result<Tensor> {
        match self {
            Part::All => Ok(y),
            _ if !y.dtype().is_complex() => Ok(y),
            Part::Imaginary => y.view_as_real()?.select(-1, 1),
            Part::Real => y.view_as_real()?.select(-1, 0),
        }
    }
    fn words(self) -> &'static str {
        match self {
            Part::All => "",
            Part::Imaginary => "While considering the imaginary part of complex outputs only, ",
            Part::Real => "While considering the real part of complex outputs only, ",
        }
    }
}

fn check_part(
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    checked: &[Tensor],
    part: Part,
    o: &GradcheckOptions,
) -> Result<()> {
    let complex: Vec<bool> = {
        let outputs = f(inputs)?;
        outputs.iter().filter(|y| is_differentiable(y)).map(|y| y.dtype().is_complex()).collect()
    };
    let outputs: Vec<Tensor> = f(inputs)?.into_iter().map(|y| part.of(y)).collect::<Result<_>>()?;
    let wanted: Vec<bool> = outputs.iter().map(is_differentiable).collect();
    let outputs: Vec<Tensor> = outputs.into_iter().zip(&wanted).filter(|(_, w)| **w).map(|(y, _)| y).collect();
    let run = || -> Result<Vec<Tensor>> {
        let all = f(inputs)?.into_iter().zip(&wanted).filter(|(_, w)| **w);
        all.map(|(y, _)| part.of(y.detach())).collect()
    };
    let differences = checked.iter().map(|x| numerical(&run, x, o.eps)).collect::<Result<Vec<_>>>()?;
    for (i, y) in outputs.iter().enumerate() {
        let found = analytical(y, checked, o)?;
        let again = analytical(y, checked, o)?;
        for (j, (a, n)) in found.iter().zip(differences.iter().map(|d| &d[i])).enumerate() {
            if a.distance(&again[j]) > o.nondet_tol {
                return Err(Error::runtime(format!(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times \
                    gives different values, although analytical gradient matches numerical gradient.The tolerance for \
                    nondeterminism was {:?}.",
                    o.nondet_tol
                )));
            }
            if !a.is_close(n, o) {
                let words = if complex.get(i) == Some(&true) { part.words() } else { "" };
                return Err(Error::runtime(format!(
                    "{words}Jacobian mismatch for output {i} with respect to input {j},\nnumerical:{}\nanalytical:{}\n",
                    n.text()?,
                    a.text()?
                )));
            }
        }
    }
    Ok(())
}

/// Check that output gradients of zero give input gradients of zero or none.
fn check_zero(outputs: &[Tensor], checked: &[Tensor]) -> Result<()> {
    let zeros = outputs.iter().map(|y| Tensor::zeros_like_meta(y.meta()).map(Some)).collect::<Result<Vec<_>>>()?;
    for (g, x) in grad(outputs, checked, &zeros, None, false, true)?.into_iter().zip(checked) {
        let Some(g) = g else { continue };
        if elements(&g)?.iter().any(|v| *v != c128::new(0.0, 0.0)) {
            return Err(Error::runtime("backward not multiplied by grad_output"));
        }
        if g.dtype() != x.dtype() {
            return Err(Error::runtime("grad is incorrect type"));
        }
        if g.place() != x.place() {
            return Err(Error::runtime("grad is incorrect device"));
        }
    }
    Ok(())
}

/// Compare the gradients of `f`, for its inputs that require gradients, with central differences. Inputs should be
/// `f64` or `complex128`. The imaginary and real parts of complex outputs are checked one after the other.
///
/// Inputs are changed in place while differences are computed, and restored afterwards.
///
/// ```
/// use torchtpu_autograd::{GradcheckOptions, gradcheck};
/// use torchtpu_tensor::Tensor;
///
/// let x = Tensor::from_slice(&[0.5f64, -1.5], &[2])?;
/// x.requires_grad_(true)?;
/// gradcheck(|x| Ok(vec![x[0].tanh()?]), &[x], &GradcheckOptions::default())?;
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
///
/// # Errors
/// Fails with `Runtime`, in PyTorch's wording, if a gradient is wrong, and with `Value` if no input requires a
/// gradient. Returns the error of `f`.
pub fn gradcheck(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: &GradcheckOptions,
) -> Result<()> {
    check(&f, inputs, options)
}

fn check(f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor], o: &GradcheckOptions) -> Result<()> {
    let _mode = GradMode::set(true);
    let checked: Vec<Tensor> = checked_inputs(inputs)?.into_iter().map(|i| inputs[i].clone()).collect();
    let outputs = f(inputs)?;
    if !outputs.iter().any(is_differentiable) {
        let run = || Ok(f(inputs)?.into_iter().filter(|y| y.dtype().is_inexact()).collect());
        for x in &checked {
            let zero = |n: &Jacobian| n.values.iter().all(|v| v.norm() <= o.atol);
            if !numerical(&run, x, o.eps)?.iter().all(zero) {
                return Err(Error::runtime("Numerical gradient for function expected to be zero"));
            }
        }
        return Ok(());
    }
    let parts: &[Part] = match outputs.iter().any(|y| y.dtype().is_complex()) {
        true => &[Part::Imaginary, Part::Real],
        false => &[Part::All],
    };
    for part in parts {
        check_part(f, inputs, &checked, *part, o)?;
    }
    let outputs: Vec<Tensor> = outputs.into_iter().filter(is_differentiable).collect();
    check_zero(&outputs, &checked)
}

/// Check second derivatives: compare the gradients of the gradients of `f` like [`gradcheck`]. Without `grad_outputs`,
/// the gradients of the outputs are random numbers in `[-1, 1)` that are the same in every call. The default generator
/// is not used.
///
/// # Errors
/// Fails like [`gradcheck`].
pub fn gradgradcheck(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    grad_outputs: Option<&[Tensor]>,
    options: &GradcheckOptions,
) -> Result<()> {
    let _mode = GradMode::set(true);
    let wanted = checked_inputs(inputs)?;
    let weights = match grad_outputs {
        Some(given) => given.to_vec(),
        None => {
            let generator = Generator::new(0);
            f(inputs)?
                .iter()
                .filter(|y| is_differentiable(y))
                .map(|y| {
                    let dtype = if y.dtype().is_complex() { DType::C128 } else { DType::F64 };
                    let meta = Meta::new(&real_dims(y), dtype.to_real(), Device::CPU);
                    let g = sample(Distribution::Uniform(-1.0, 1.0), &meta, Some(&generator))?;
                    let g = if dtype.is_complex() { g.view_as_complex()? } else { g };
                    let g = g.detach().to_device(y.place())?;
                    g.requires_grad_(true)?;
                    Ok(g)
                })
                .collect::<Result<Vec<_>>>()?
        }
    };
    let mut all = inputs.to_vec();
    let count = all.len();
    all.extend(weights);
    let gradient = |all: &[Tensor]| -> Result<Vec<Tensor>> {
        let _mode = GradMode::set(true);
        let (x, weights) = all.split_at(count);
        let outputs: Vec<Tensor> = f(x)?.into_iter().filter(is_differentiable).collect();
        let by: Vec<Tensor> = wanted.iter().map(|&i| x[i].clone()).collect();
        let weights: Vec<Option<Tensor>> = weights.iter().cloned().map(Some).collect();
        Ok(grad(&outputs, &by, &weights, None, true, true)?.into_iter().flatten().collect())
    };
    check(&gradient, &all, options)
}

/// Return the sizes of the real numbers that a tensor consists of.
fn real_dims(y: &Tensor) -> Vec<usize> {
    let mut dims = y.dims().to_vec();
    if y.dtype().is_complex() {
        dims.push(2);
    }
    dims
}
