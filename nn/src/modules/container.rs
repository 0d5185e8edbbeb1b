//! Modules that contain modules.

use crate::{Module, Visitor};
use std::fmt;
use torchtpu_tensor::{Error, ErrorKind, Result, Tensor};

/// Modules with names, in order.
#[derive(Default)]
struct Named(Vec<(String, Box<dyn Module>)>);

impl Named {
    fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(n, _)| n == name)
    }
    fn get(&self, i: usize) -> Option<&dyn Module> {
        self.0.get(i).map(|(_, m)| m.as_ref())
    }
    fn push(&mut self, name: String, m: impl Module + 'static) {
        self.0.push((name, Box::new(m)));
    }
    /// Return the first number, from the length on, that is not a name yet.
    fn next_name(&self) -> String {
        let mut i = self.0.len();
        while self.find(&i.to_string()).is_some() {
            i += 1;
        }
        i.to_string()
    }
    fn iter(&self) -> impl Iterator<Item = (&str, &dyn Module)> {
        self.0.iter().map(|(name, m)| (name.as_str(), m.as_ref()))
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        self.0.iter().for_each(|(name, m)| v.module(name, m.as_ref()));
    }
    fn debug(&self, title: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{title}(")?;
        self.iter().try_for_each(|(name, m)| writeln!(f, "  ({name}): {}", m.name()))?;
        write!(f, ")")
    }
}

/// Refuse names that make keys of state dictionaries ambiguous.
fn check_name(name: &str) -> Result<()> {
    let wrong = |message: String| Err(Error::new(ErrorKind::Key, message));
    if name.contains('.') {
        return wrong(format!("module name can't contain \".\", got: {name}"));
    }
    if name.is_empty() { wrong("module name can't be empty string \"\"".to_string()) } else { Ok(()) }
}

fn no_forward(name: &str) -> Error {
    Error::not_implemented(format!("Module [{name}] is missing the required \"forward\" function"))
}

/// Define the read access that containers share.
macro_rules! contents {
    ($name:ident) => {
        impl $name {
            /// Return the number of modules.
            pub fn len(&self) -> usize {
                self.modules.0.len()
            }
            /// Whether there are no modules.
            pub fn is_empty(&self) -> bool {
                self.modules.0.is_empty()
            }
            /// Return names and modules, in order.
            pub fn iter(&self) -> impl Iterator<Item = (&str, &dyn Module)> {
                self.modules.iter()
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.modules.debug(stringify!($name), f)
            }
        }
    };
}
contents!(Sequential);
contents!(ModuleList);
contents!(ModuleDict);

/// Modules that run one after the other, named `0`, `1`, ... unless named otherwise.
#[derive(Default)]
pub struct Sequential {
    modules: Named,
}

impl Sequential {
    /// Return an empty sequence, which is the identity.
    pub fn new() -> Sequential {
        Sequential::default()
    }
    /// Add a module at the end.
    pub fn push(mut self, m: impl Module + 'static) -> Sequential {
        self.modules.push(self.modules.next_name(), m);
        self
    }
    /// Add a module with a name at the end.
    ///
    /// # Errors
    /// Fails with `Key` if the name is taken, empty, or contains a dot.
    pub fn push_named(mut self, name: &str, m: impl Module + 'static) -> Result<Sequential> {
        check_name(name)?;
        if self.modules.find(name).is_some() {
            return Err(Error::new(ErrorKind::Key, format!("attribute '{name}' already exists")));
        }
        self.modules.push(name.to_string(), m);
        Ok(self)
    }
    /// Return the module at `index`.
    pub fn get(&self, index: usize) -> Option<&dyn Module> {
        self.modules.get(index)
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.modules.iter().try_fold(x.clone(), |x, (_, m)| m.forward(&x))
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        self.modules.visit(v);
    }
}

/// A list of modules named `0`, `1`, .... The owner of the list computes with them.
///
/// ```
/// use torchtpu_nn::{Linear, Module, ModuleList};
///
/// let mut list = ModuleList::new();
/// for width in [4, 2] {
///     list.push(Linear::new(3, width)?);
/// }
/// assert_eq!(list.named_parameters()[2].0, "1.weight");
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
#[derive(Default)]
pub struct ModuleList {
    modules: Named,
}

impl ModuleList {
    /// Return an empty list.
    pub fn new() -> ModuleList {
        ModuleList::default()
    }
    /// Add a module at the end.
    pub fn push(&mut self, m: impl Module + 'static) {
        self.modules.push(self.modules.next_name(), m);
    }
    /// Return the module at `index`.
    pub fn get(&self, index: usize) -> Option<&dyn Module> {
        self.modules.get(index)
    }
}

impl Module for ModuleList {
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(no_forward("ModuleList"))
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        self.modules.visit(v);
    }
}

/// Modules by name, in order of insertion.
#[derive(Default)]
pub struct ModuleDict {
    modules: Named,
}

impl ModuleDict {
    /// Return an empty dictionary.
    pub fn new() -> ModuleDict {
        ModuleDict::default()
    }
    /// Add a module, or replace the module with this name.
    ///
    /// # Errors
    /// Fails with `Key` if the name is empty or contains a dot.
    pub fn insert(&mut self, name: &str, m: impl Module + 'static) -> Result<()> {
        check_name(name)?;
        match self.modules.find(name) {
            Some(i) => self.modules.0[i].1 = Box::new(m),
            None => self.modules.push(name.to_string(), m),
        }
        Ok(())
    }
    /// Return the module with this name.
    pub fn get(&self, name: &str) -> Option<&dyn Module> {
        self.modules.get(self.modules.find(name)?)
    }
}

impl Module for ModuleDict {
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(no_forward("ModuleDict"))
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        self.modules.visit(v);
    }
}
