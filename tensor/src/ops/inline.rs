//! Custom kernels: operators whose meaning is a given StableHLO module.
//!
//! A [`Kernel`] is the module for one set of shapes, and optionally its gradient, which is another kernel. The module's
//! functions are added to the program and called, so that the compiler fuses them with the ops around them. Callers
//! choose the kernel for their shapes.

use crate::axes::Axes;
use crate::op::{Func, Grads, Op, Outs, Prim, Saved, Saves, Value, Values, same_device};
use crate::{DType, Dims, Error, Meta, Result, Tensor, backend, dispatch, meta};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use torchtpu_kernels::View;
use torchtpu_stablehlo::Library;

impl Prim {
    /// The user's kernel that this op calls.
    pub fn custom_kernel(&self) -> Option<&Arc<Kernel>> {
        match self {
            Prim::Inline(call) => Some(&call.0),
            _ => None,
        }
    }
}

/// An operand of a gradient's kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GradientInput {
    /// An input of the kernel.
    Input(usize),
    /// A result of the kernel, including those that callers do not see.
    Output(usize),
    /// The gradient of a result: zeros if none has reached it.
    Cotangent(usize),
}

/// The gradient of a kernel.
#[derive(Clone, Debug)]
pub struct Gradient {
    /// The kernel that computes the gradients.
    pub kernel: Arc<Kernel>,
    /// The operands of that kernel, in order.
    pub inputs: Vec<GradientInput>,
    /// For each input of the forward kernel, the number of the result that is its gradient, if it has one.
    pub results: Vec<Option<usize>>,
}

/// An operator for one set of shapes.
pub struct Kernel {
    name: &'static str,
    library: Library,
    args: Vec<(Dims, DType)>,
    results: Vec<(Dims, DType)>,
    visible: usize,
    gradient: Option<Gradient>,
    /// The place in the user's program.
    place: Option<String>,
}

impl Kernel {
    /// Make a kernel of a StableHLO module, for the operator `name` (`"namespace::name"`).
    ///
    /// # Errors
    /// `Value` when the module cannot be part of a program.
    pub fn new(name: &str, text: &str) -> Result<Kernel> {
        let refuse = |why: String| Error::value(format!("{name}: the StableHLO module cannot be used: {why}"));
        let library = Library::parse(text).map_err(refuse)?;
        let described = |ty: &torchtpu_stablehlo::Type| -> Result<(Dims, DType)> {
            let dtype = DType::ALL.into_iter().find(|d| meta::element_type(*d) == ty.element);
            let dtype = dtype.ok_or_else(|| refuse(format!("no dtype of tensors is {}", ty.element.mlir())))?;
            Ok((Dims::try_new(&ty.shape)?, dtype))
        };
        let args = library.args().iter().map(described).collect::<Result<Vec<_>>>()?;
        let results = library.results().iter().map(described).collect::<Result<Vec<_>>>()?;
        if args.is_empty() || results.is_empty() {
            return Err(refuse("it must take at least one tensor and return at least one".to_string()));
        }
        let visible = results.len();
        Ok(Kernel { name: interned(name), library, args, results, visible, gradient: None, place: None })
    }

    /// Set the gradient. Callers then see the first `visible` results; the others are for the gradient.
    ///
    /// # Errors
    /// `Value` when the gradient's kernel does not fit.
    pub fn with_gradient(mut self, visible: usize, gradient: Gradient) -> Result<Kernel> {
        let refuse = |why: String| Err(Error::value(format!("{}: the gradient does not fit: {why}", self.name)));
        if visible == 0 || visible > self.results.len() {
            return refuse(format!("{visible} of {} results are for callers", self.results.len()));
        }
        let g = &gradient.kernel;
        if gradient.inputs.len() != g.args.len() || gradient.results.len() != self.args.len() {
            return refuse(format!("it takes {} tensors for {} results", g.args.len(), self.args.len()));
        }
        for (i, (input, given)) in gradient.inputs.iter().zip(&g.args).enumerate() {
            let of = match *input {
                GradientInput::Input(i) => self.args.get(i),
                GradientInput::Output(i) | GradientInput::Cotangent(i) => self.results.get(i),
            };
            if of != Some(given) {
                return refuse(format!("its argument {i} is {given:?} and is given {of:?}"));
            }
        }
        for (arg, result) in self.args.iter().zip(&gradient.results) {
            if let Some(r) = result
                && g.results.get(*r) != Some(arg)
            {
                return refuse(format!("its result {r} is {:?} for an input of {arg:?}", g.results.get(*r)));
            }
        }
        self.visible = visible;
        self.gradient = Some(gradient);
        Ok(self)
    }

    /// Set the file and line in the user's program, for errors of the compiler.
    pub fn with_place(mut self, place: Option<String>) -> Kernel {
        self.place = place;
        self
    }

    /// The operator's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The place in the user's program.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// The functions.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Sizes and dtypes of the arguments.
    pub fn args(&self) -> &[(Dims, DType)] {
        &self.args
    }

    /// Sizes and dtypes of the results, with those that only the gradient needs.
    pub fn results(&self) -> &[(Dims, DType)] {
        &self.results
    }

    /// Call the kernel, and return the results that callers see.
    ///
    /// # Errors
    /// `Runtime` when the arguments do not have the kernel's sizes and dtypes.
    pub fn call(self: &Arc<Self>, x: &[&Tensor]) -> Result<Outs> {
        let mut y = dispatch::call_n(Prim::Inline(Inline(self.clone())), x)?;
        y.truncate(self.visible);
        Ok(y)
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:032x}", self.name, self.library.hash())
    }
}

/// Names live as long as the process, since errors and traces name ops by static texts. There are as many as operators.
fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.get(name) {
        Some(known) => known,
        None => {
            let name: &'static str = Box::leak(name.to_string().into_boxed_str());
            names.insert(name);
            name
        }
    }
}

/// A call of a [`Kernel`].
///
/// | operand | shape | dtype |
/// |---|---|---|
/// | `x[i]` | that of argument `i` of the kernel (C1) | that of the argument (C2) |
/// | `y[i]` | that of result `i` of the kernel | that of the result |
///
/// There are as many operands as arguments (C3).
///
/// On `cpu` the program runs on XLA:CPU. The gradient is that of the kernel, and has no gradient itself.
#[derive(Clone, Debug)]
pub struct Inline(pub Arc<Kernel>);

impl PartialEq for Inline {
    fn eq(&self, other: &Inline) -> bool {
        let (a, b) = (&self.0, &other.0);
        Arc::ptr_eq(a, b) || (a.name == b.name && a.library == b.library)
    }
}
impl Eq for Inline {}
impl Hash for Inline {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.library.hash().hash(state);
    }
}

fn shown((dims, dtype): &(Dims, DType)) -> String {
    format!("{}{:?}", dtype.name(), &dims[..])
}

impl Op for Inline {
    const NAME: &'static str = "inline";
    fn label(&self) -> &'static str {
        self.0.name
    }
    fn outs(&self) -> usize {
        self.0.results.len()
    }
    fn differentiable(&self) -> u64 {
        u64::MAX.checked_shr(64 - self.0.visible.min(64) as u32).unwrap_or(0)
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn takes_stored(&self) -> bool {
        true
    }
    fn infer(&self, x: &[&Tensor]) -> Result<Meta> {
        let (name, args) = (self.0.name, &self.0.args);
        if x.len() != args.len() {
            return Err(Error::runtime(format!("{name}: expected {} tensors but got {}", args.len(), x.len()))); // C3
        }
        for (i, (x, arg)) in x.iter().zip(args).enumerate() {
            let given = (*x.dims(), x.dtype());
            if given != *arg {
                // C1, C2
                return Err(Error::runtime(format!(
                    "{name}: argument {i} is {}, must be {}",
                    shown(&given),
                    shown(arg)
                )));
            }
        }
        let (dims, dtype) = self.0.results[0];
        Ok(Meta { dims, dtype, place: same_device(x)? })
    }
    fn infer_extra(&self, _: &[&Tensor], first: &Meta, i: usize) -> Meta {
        let (dims, dtype) = self.0.results[i];
        Meta { dims, dtype, ..*first }
    }
    fn axes(&self, x: &[Meta], y: &[Meta]) -> Axes {
        Axes::opaque("the program is the user's", x, y)
    }
    fn kernel(&self, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
        let dense: SmallVec<[Tensor; 4]> = x.iter().map(|x| x.detach().contiguous()).collect::<Result<_>>()?;
        let bytes: SmallVec<[&[u8]; 4]> = dense.iter().map(|x| x.as_bytes().expect("contiguous and on cpu")).collect();
        let found = backend::get()?.run_kernel(&self.0, &bytes)?;
        for (y, bytes) in y.iter().zip(&found) {
            let strides = y.dims().contiguous_strides();
            torchtpu_kernels::copy::copy(&View::of_bytes(bytes, y.dims(), &strides, y.dtype()), &mut y.view_mut());
        }
        Ok(())
    }
    fn lower(&self, f: &mut Func, x: &[Value], _: &[Meta]) -> Values {
        f.call(&self.0.library, x).into_iter().collect()
    }
    fn vjp(&self, s: &Saved<'_>, g: &Tensor) -> Result<Grads> {
        let name = self.0.name;
        let Some(gradient) = &self.0.gradient else {
            return Err(Error::runtime(format!(
                "Trying to backward through {}.default but no autograd formula was registered. Please use \
                 register_autograd to add one.",
                name.replace("::", ".")
            )));
        };
        let given = |input: &GradientInput| match *input {
            GradientInput::Input(i) => Ok(s.x(i).clone()),
            GradientInput::Output(i) => Ok(s.y(i).clone()),
            GradientInput::Cotangent(0) => Ok(g.clone()),
            GradientInput::Cotangent(i) => match s.g(i) {
                Some(g) => Ok(g.clone()),
                None => Tensor::full_meta(s.out(i), crate::Scalar::Int(0)),
            },
        };
        let x: SmallVec<[Tensor; 4]> = gradient.inputs.iter().map(given).collect::<Result<_>>()?;
        let x: SmallVec<[&Tensor; 4]> = x.iter().collect();
        let y = gradient.kernel.call(&x)?;
        Ok(gradient.results.iter().map(|r| r.map(|r| y[r].clone())).collect())
    }
    fn saves(&self, _: u64) -> Saves {
        let mut saves = Saves::NONE;
        for input in self.0.gradient.iter().flat_map(|g| &g.inputs) {
            match input {
                GradientInput::Input(i) => saves.x |= 1 << i.min(&63),
                GradientInput::Output(i) => saves.y |= 1 << i.min(&63),
                GradientInput::Cotangent(_) => {}
            }
        }
        saves
    }
}
