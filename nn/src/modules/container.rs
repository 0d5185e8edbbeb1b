//! Modules made of modules.

use crate::{Module, Visitor};
use torchtpu_tensor::{Result, Tensor};

/// Modules one after the other, named `0`, `1`, ... unless named otherwise.
#[derive(Default)]
pub struct Sequential {
    modules: Vec<(String, Box<dyn Module>)>,
}

impl Sequential {
    /// Nothing yet: the identity.
    pub fn new() -> Sequential {
        Sequential::default()
    }
    /// Adds a module at the end.
    pub fn push(self, m: impl Module + 'static) -> Sequential {
        let name = self.modules.len().to_string();
        self.push_named(&name, m)
    }
    /// Adds a module at the end under a name.
    pub fn push_named(mut self, name: &str, m: impl Module + 'static) -> Sequential {
        self.modules.push((name.to_string(), Box::new(m)));
        self
    }
    /// How many modules there are.
    pub fn len(&self) -> usize {
        self.modules.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.modules.iter().try_fold(x.clone(), |x, (_, m)| m.forward(&x))
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        self.modules.iter().for_each(|(name, m)| v.module(name, m.as_ref()));
    }
}
