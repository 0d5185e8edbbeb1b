//! The module trait: parameters, state dictionaries, and moves between devices.

use crate::{Buffer, Parameter, Training};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use torchtpu_tensor::{DType, Device, Error, Result, Tensor, no_grad};

/// Tensors by key, in the order of the module's parts.
pub type StateDict = Vec<(String, Tensor)>;

/// Keys in which a module and a state dictionary differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncompatibleKeys {
    /// Keys of the module that the dictionary lacks.
    pub missing: Vec<String>,
    /// Keys of the dictionary that the module does not have.
    pub unexpected: Vec<String>,
}

/// A part of a module.
pub enum Item<'a> {
    /// A trained tensor.
    Parameter(&'a Parameter),
    /// Other state, which is not trained.
    Buffer(&'a Buffer),
    /// The switch between training and evaluation.
    Training(&'a Training),
    /// A submodule. It is visited before its own parts.
    Module(&'a dyn Module),
}

/// The receiver of [`Module::visit`], which visits the parts of a module.
pub struct Visitor<'a> {
    prefix: String,
    see: &'a mut dyn FnMut(&str, Item<'_>),
}

impl<'a> Visitor<'a> {
    /// Make a visitor that calls `see` with the full name of each part and the part.
    pub fn new(see: &'a mut dyn FnMut(&str, Item<'_>)) -> Visitor<'a> {
        Visitor { prefix: String::new(), see }
    }
    fn item(&mut self, name: &str, item: Item<'_>) {
        let full = format!("{}{name}", self.prefix);
        (self.see)(&full, item);
    }
    /// Visit a parameter.
    pub fn parameter(&mut self, name: &str, p: &Parameter) {
        self.item(name, Item::Parameter(p));
    }
    /// Visit a buffer.
    pub fn buffer(&mut self, name: &str, b: &Buffer) {
        self.item(name, Item::Buffer(b));
    }
    /// Visit the switch between training and evaluation.
    pub fn training(&mut self, t: &Training) {
        self.item("training", Item::Training(t));
    }
    /// Visit a submodule.
    pub fn module(&mut self, name: &str, m: &dyn Module) {
        self.item(name, Item::Module(m));
        let len = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('.');
        m.visit(self);
        self.prefix.truncate(len);
    }
}

/// A function of one tensor with parameters.
///
/// ```
/// use torchtpu_nn::{Linear, Module, Visitor};
/// use torchtpu_tensor::{Result, Tensor};
///
/// struct Residual {
///     inner: Linear,
/// }
/// impl Module for Residual {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         x.add(&self.inner.forward(x)?)
///     }
///     fn visit(&self, v: &mut Visitor<'_>) {
///         v.module("inner", &self.inner);
///     }
/// }
/// let m = Residual { inner: Linear::new(3, 3)? };
/// let names: Vec<String> = m.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["inner.weight", "inner.bias"]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
pub trait Module: Send + Sync {
    /// Compute the output for `x`.
    ///
    /// # Errors
    /// Fails if the input does not fit.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;

    /// Visit the module's parts, in order.
    fn visit(&self, v: &mut Visitor<'_>);

    /// Return the type's name, for messages.
    fn name(&self) -> &'static str {
        let full = std::any::type_name::<Self>();
        let plain = full.split('<').next().unwrap_or(full);
        plain.rsplit("::").next().unwrap_or(plain)
    }

    /// Return all parameters with their names. Each occurs once, under its first name.
    fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        self.visit(&mut Visitor::new(&mut |name, item| {
            if let Item::Parameter(p) = item
                && seen.insert(p.id())
            {
                all.push((name.to_string(), p.clone()));
            }
        }));
        all
    }

    /// Return all parameters, each once.
    fn parameters(&self) -> Vec<Parameter> {
        self.named_parameters().into_iter().map(|(_, p)| p).collect()
    }

    /// Return all buffers with their names.
    fn named_buffers(&self) -> Vec<(String, Buffer)> {
        let mut all = Vec::new();
        self.visit(&mut Visitor::new(&mut |name, item| {
            if let Item::Buffer(b) = item {
                all.push((name.to_string(), b.clone()));
            }
        }));
        all
    }

    /// Return the names and types of all submodules, at all depths. A module precedes its own submodules.
    /// [`Module::visit`] gives the modules themselves, as [`Item::Module`].
    fn named_modules(&self) -> Vec<(String, &'static str)> {
        let mut all = Vec::new();
        self.visit(&mut Visitor::new(&mut |name, item| {
            if let Item::Module(m) = item {
                all.push((name.to_string(), m.name()));
            }
        }));
        all
    }

    /// Choose training (`true`) or evaluation (`false`) for all parts.
    fn train(&self, on: bool) {
        self.visit(&mut Visitor::new(&mut |_, item| {
            if let Item::Training(t) = item {
                t.set(on);
            }
        }));
    }

    /// Choose evaluation, like `train(false)`.
    fn eval(&self) {
        self.train(false);
    }

    /// Move all parameters and buffers to a device. Shared parameters stay shared.
    ///
    /// # Errors
    /// Fails like [`Tensor::to_device`].
    fn to(&self, device: Device) -> Result<()> {
        let mut result = Ok(());
        self.visit(&mut Visitor::new(&mut |_, item| {
            if result.is_ok() {
                result = match item {
                    Item::Parameter(p) => p.to(device),
                    Item::Buffer(b) => b.to(device),
                    Item::Training(_) | Item::Module(_) => Ok(()),
                };
            }
        }));
        result
    }

    /// Convert all floating-point parameters, their gradients and all floating-point buffers to a dtype. Others do not
    /// change. Shared parameters stay shared, and an optimiser made before the conversion trains the converted ones.
    ///
    /// # Errors
    /// Fails with `Type` unless the dtype is floating point.
    fn to_dtype(&self, dtype: DType) -> Result<()> {
        if !dtype.is_float() {
            return Err(Error::type_error(format!(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.{}",
                dtype.name()
            )));
        }
        let mut result = Ok(());
        self.visit(&mut Visitor::new(&mut |_, item| {
            if result.is_ok() {
                result = match item {
                    Item::Parameter(p) if p.tensor().dtype().is_float() => p.to_dtype(dtype),
                    Item::Buffer(b) if b.tensor().dtype().is_float() => b.to_dtype(dtype),
                    _ => Ok(()),
                };
            }
        }));
        result
    }

    /// Convert to `float16`; see [`Module::to_dtype`].
    ///
    /// # Errors
    /// Fails if memory runs out.
    fn half(&self) -> Result<()> {
        self.to_dtype(DType::F16)
    }

    /// Convert to `bfloat16`; see [`Module::to_dtype`].
    ///
    /// # Errors
    /// Fails if memory runs out.
    fn bfloat16(&self) -> Result<()> {
        self.to_dtype(DType::BF16)
    }

    /// Convert to `float32`; see [`Module::to_dtype`].
    ///
    /// # Errors
    /// Fails if memory runs out.
    fn float(&self) -> Result<()> {
        self.to_dtype(DType::F32)
    }

    /// Convert to `float64`; see [`Module::to_dtype`].
    ///
    /// # Errors
    /// Fails if memory runs out.
    fn double(&self) -> Result<()> {
        self.to_dtype(DType::F64)
    }

    /// Choose whether the parameters require gradients.
    ///
    /// # Errors
    /// Fails if a parameter is not a leaf, because a module changed it in place.
    fn requires_grad_(&self, on: bool) -> Result<()> {
        self.parameters().iter().try_for_each(|p| p.requires_grad_(on))
    }

    /// Drop all gradients.
    ///
    /// # Errors
    /// Fails if a parameter is not a leaf, because a module changed it in place.
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|p| p.tensor().set_grad(None))
    }

    /// Return parameters and buffers by PyTorch's keys. A shared one occurs under each of its names. The tensors share
    /// memory with the module and have no history.
    fn state_dict(&self) -> StateDict {
        let mut all = StateDict::new();
        self.visit(&mut Visitor::new(&mut |name, item| match item {
            Item::Parameter(p) => all.push((name.to_string(), p.tensor().detach())),
            Item::Buffer(b) => all.push((name.to_string(), b.tensor().detach())),
            Item::Training(_) | Item::Module(_) => {}
        }));
        all
    }

    /// Copy values to parameters and buffers. If there is an error, nothing is copied.
    ///
    /// # Errors
    /// Fails with `Runtime`, in PyTorch's wording, if sizes differ. With `strict`, also fails for missing or unexpected
    /// keys.
    fn load_state_dict(&self, state: &[(String, Tensor)], strict: bool) -> Result<IncompatibleKeys> {
        let given: HashMap<&str, &Tensor> = state.iter().map(|(k, v)| (k.as_str(), v)).collect();
        let own = self.state_dict();
        let known: HashSet<&str> = own.iter().map(|(k, _)| k.as_str()).collect();
        let keys = IncompatibleKeys {
            missing: own.iter().filter(|(k, _)| !given.contains_key(k.as_str())).map(|(k, _)| k.clone()).collect(),
            unexpected: state.iter().filter(|(k, _)| !known.contains(k.as_str())).map(|(k, _)| k.clone()).collect(),
        };
        let mut errors = Vec::new();
        let listed = |v: &[String]| v.iter().map(|k| format!("\"{k}\"")).collect::<Vec<_>>().join(", ");
        if strict && !keys.missing.is_empty() {
            errors.push(format!("Missing key(s) in state_dict: {}. ", listed(&keys.missing)));
        }
        if strict && !keys.unexpected.is_empty() {
            errors.push(format!("Unexpected key(s) in state_dict: {}. ", listed(&keys.unexpected)));
        }
        for (key, x) in &own {
            if let Some(y) = given.get(key.as_str()).filter(|y| y.dims() != x.dims()) {
                errors.push(format!(
                    "size mismatch for {key}: copying a param with shape torch.Size({}) from checkpoint, the shape in \
                    current model is torch.Size({}).",
                    y.dims(),
                    x.dims()
                ));
            }
        }
        if !errors.is_empty() {
            return Err(Error::runtime(format!(
                "Error(s) in loading state_dict for {}:\n\t{}",
                self.name(),
                errors.join("\n\t")
            )));
        }
        no_grad(|| {
            for (key, x) in &own {
                if let Some(y) = given.get(key.as_str()) {
                    x.copy_(&y.detach())?;
                }
            }
            Ok(keys)
        })
    }
}

/// Implement [`Module`] for a pointer to a module.
macro_rules! pointer_module {
    ($pointer:ident) => {
        impl<M: Module + ?Sized> Module for $pointer<M> {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                (**self).forward(x)
            }
            fn visit(&self, v: &mut Visitor<'_>) {
                (**self).visit(v);
            }
            fn name(&self) -> &'static str {
                (**self).name()
            }
        }
    };
}
pointer_module!(Arc);
pointer_module!(Box);

/// Return the error of [`Module::forward`] for a module that needs more than one tensor.
pub(crate) fn missing_argument(module: &str, argument: &str) -> Error {
    Error::type_error(format!("{module}.forward() missing 1 required positional argument: '{argument}'"))
}
