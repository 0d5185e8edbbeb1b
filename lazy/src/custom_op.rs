//! Custom operators, from StableHLO or Mosaic text.

use crate::mosaic::{self, Cost};
use parking_lot::Mutex;
use std::sync::Arc;
use torchtpu_tensor::ops::inline::Kernel;
use torchtpu_tensor::{DType, Dims, Error, Meta, Result, Tensor, no_grad, op};

/// The function that makes the kernel for arguments of these descriptions.
type Make = dyn Fn(&[Meta]) -> Result<Kernel> + Send + Sync;
/// Sizes and dtypes of arguments.
type Shapes = Vec<(Dims, DType)>;
/// The function that computes on the processor instead of a kernel.
type OnCpu = dyn Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

/// An operator that makes a kernel for each set of shapes and dtypes at its first use.
///
/// ```no_run
/// # torchtpu_lazy::install();
/// use torchtpu_lazy::CustomOp;
/// use torchtpu_tensor::Tensor;
///
/// let double = CustomOp::stablehlo("mine::double", |x| {
///     let ty = x[0].ty();
///     Ok(format!(
///         "func.func public @main(%x: {ty}) -> {ty} {{ %y = stablehlo.add %x, %x : {ty} return %y : {ty} }}"
///     ))
/// })?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0], &[2])?;
/// assert_eq!(double.call(&[&x])?[0].to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
pub struct CustomOp {
    make: Box<Make>,
    on_cpu: Option<Box<OnCpu>>,
    known: Mutex<Vec<(Shapes, Arc<Kernel>)>>,
}

impl CustomOp {
    /// Make an operator of any kernels. `make` returns the kernel for arguments of these descriptions.
    pub fn new(make: impl Fn(&[Meta]) -> Result<Kernel> + Send + Sync + 'static) -> CustomOp {
        CustomOp { make: Box::new(make), on_cpu: None, known: Mutex::default() }
    }

    /// Make an operator of StableHLO modules. `body` returns the text of the module for arguments of these
    /// descriptions.
    ///
    /// # Errors
    /// `Value` if `name` is not `namespace::name`.
    pub fn stablehlo(name: &str, body: impl Fn(&[Meta]) -> Result<String> + Send + Sync + 'static) -> Result<CustomOp> {
        let name = checked(name)?;
        Ok(CustomOp::new(move |metas| Kernel::new(&name, &body(metas)?)))
    }

    /// Make an operator of Mosaic programs for TPUs. `body` returns the text for arguments of these descriptions,
    /// `infer` describes the results, and `cost` estimates the cost. On other devices `on_cpu` computes the same.
    ///
    /// # Errors
    /// `Value` if `name` is not `namespace::name`.
    pub fn mosaic(
        name: &str,
        body: impl Fn(&[Meta]) -> Result<String> + Send + Sync + 'static,
        infer: impl Fn(&[Meta]) -> Result<Vec<Meta>> + Send + Sync + 'static,
        cost: impl Fn(&[Meta]) -> Option<Cost> + Send + Sync + 'static,
        on_cpu: impl Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) -> Result<CustomOp> {
        let name = checked(name)?;
        let make = move |metas: &[Meta]| {
            let args: Vec<_> = metas.iter().map(Meta::ty).collect();
            let results: Vec<_> = infer(metas)?.iter().map(Meta::ty).collect();
            Kernel::new(&name, &mosaic::module(&name, &body(metas)?, &args, &results, cost(metas)))
        };
        Ok(CustomOp { on_cpu: Some(Box::new(on_cpu)), ..CustomOp::new(make) })
    }

    /// Set the function for device `cpu`, and for `tpu` if that is XLA:CPU.
    #[must_use]
    pub fn with_cpu(mut self, on_cpu: impl Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static) -> CustomOp {
        self.on_cpu = Some(Box::new(on_cpu));
        self
    }

    /// Call the operator. Results of the function of [`CustomOp::with_cpu`] or [`CustomOp::mosaic`] have no gradient.
    ///
    /// # Errors
    /// Errors of making the kernel. `Runtime` if there are no arguments, or if they do not fit.
    pub fn call(&self, x: &[&Tensor]) -> Result<Vec<Tensor>> {
        if x.is_empty() {
            return Err(Error::runtime("a custom operator needs at least one tensor"));
        }
        let is_on_cpu = match op::same_device(x)? {
            place if place.in_memory() => true,
            place if place.is_tpu() => crate::profile()?.runs_on_host,
            _ => false,
        };
        match &self.on_cpu {
            Some(on_cpu) if is_on_cpu => no_grad(|| on_cpu(x)),
            _ => Ok(self.kernel(x)?.call(x)?.into_iter().collect()),
        }
    }

    fn kernel(&self, x: &[&Tensor]) -> Result<Arc<Kernel>> {
        let key: Shapes = x.iter().map(|x| (*x.dims(), x.dtype())).collect();
        if let Some((_, kernel)) = self.known.lock().iter().find(|(k, _)| *k == key) {
            return Ok(kernel.clone());
        }
        let metas: Vec<Meta> = x.iter().map(|x| *x.meta()).collect();
        let kernel = Arc::new((self.make)(&metas)?);
        self.known.lock().push((key, kernel.clone()));
        Ok(kernel)
    }
}

impl std::fmt::Debug for CustomOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CustomOp").field("known", &self.known.lock().len()).finish_non_exhaustive()
    }
}

/// Return an error for a name that is not `namespace::name`.
fn checked(name: &str) -> Result<String> {
    let is_word = |w: &str| {
        !w.is_empty()
            && !w.starts_with(|c: char| c.is_ascii_digit())
            && w.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    match name.split_once("::") {
        Some((space, op)) if is_word(space) && is_word(op) => Ok(name.to_string()),
        _ => Err(Error::value(format!("Expected `name` to be of the form `namespace::name`, got {name:?}"))),
    }
}
