//! The hooks of a node, and the checks of what they return.

use torchtpu_tensor::graph::{GradList, NodeHooks};
use torchtpu_tensor::hooks::check_result;
use torchtpu_tensor::{Error, Result, Tensor};

fn wrong_number(what: &str, got: usize, expected: usize) -> Error {
    Error::runtime(format!("hooks return value has wrong number of {what}: got {got}, but expected {expected}"))
}

/// Check each gradient that a hook returned.
fn check_list(hook: usize, given: &[Option<Tensor>], found: &[Option<Tensor>]) -> Result<()> {
    for (given, found) in given.iter().zip(found) {
        match (given, found) {
            (Some(given), Some(found)) => check_result(&hook.to_string(), given, found)?,
            (None, Some(_)) => return Err(Error::runtime("can't replace a None gradient with a non-None value")),
            _ => {}
        }
    }
    Ok(())
}

/// Run the hooks that come before a step.
pub(crate) fn before_step(hooks: &NodeHooks, g: &mut GradList) -> Result<()> {
    for (i, (_, hook)) in hooks.pre.iter().enumerate() {
        if let Some(new) = hook(g)? {
            if new.len() != g.len() {
                return Err(wrong_number("grad_outputs", new.len(), g.len()));
            }
            check_list(i, g, &new)?;
            *g = new;
        }
    }
    Ok(())
}

/// Run the hooks that come after a step.
pub(crate) fn after_step(hooks: &NodeHooks, found: &mut GradList, g: &[Option<Tensor>]) -> Result<()> {
    for (i, (_, hook)) in hooks.post.iter().enumerate() {
        if let Some(new) = hook(found, g)? {
            if new.len() != found.len() {
                return Err(wrong_number("grad_inputs", new.len(), found.len()));
            }
            check_list(i, found, &new)?;
            *found = new;
        }
    }
    Ok(())
}
