//! Anomaly mode: backward reports the forward call whose gradient failed.
//!
//! In anomaly mode, every new node stores the stack of the call that made it. If the gradient of a node fails or is
//! NaN, that stack is reported: to the function given to [`set_report`], or as a note of the error.

use std::sync::{Arc, OnceLock};
use torchtpu_tensor::graph::Node;
use torchtpu_tensor::op::Grads;
use torchtpu_tensor::saved::{self, set_running};
use torchtpu_tensor::{Error, GradMode, Result, Tensor, no_grad};

static REPORT: OnceLock<fn(&str)> = OnceLock::new();

/// Set the function that receives reports. The first function set stays.
pub fn set_report(f: fn(&str)) {
    let _ = REPORT.set(f);
}

/// Anomaly mode until this value is dropped; see [`saved::set_anomaly`].
pub struct DetectAnomaly((bool, bool));

impl DetectAnomaly {
    /// Switch anomaly mode on, for all threads.
    pub fn new(check_nan: bool) -> DetectAnomaly {
        DetectAnomaly(saved::set_anomaly(true, check_nan))
    }
}

impl Drop for DetectAnomaly {
    fn drop(&mut self) {
        saved::set_anomaly(self.0.0, self.0.1);
    }
}

/// The checks of one backward pass.
pub(crate) struct Watch {
    detect: bool,
    check_nan: bool,
}

/// A guard that marks a node as running until it is dropped.
pub(crate) struct Running(Option<Arc<Node>>);

impl Drop for Running {
    fn drop(&mut self) {
        set_running(self.0.take());
    }
}

impl Watch {
    pub(crate) fn start() -> Watch {
        let (detect, check_nan) = saved::anomaly();
        Watch { detect, check_nan }
    }

    #[inline]
    pub(crate) fn enter(&self, node: &Arc<Node>) -> Option<Running> {
        self.detect.then(|| Running(set_running(Some(node.clone()))))
    }

    /// Add the forward call to an error of its gradient.
    #[cold]
    pub(crate) fn failed(&self, node: &Arc<Node>, e: Error) -> Error {
        if !self.detect {
            return e;
        }
        match (REPORT.get(), creation_texts(node)) {
            (Some(report), parts) => {
                parts.iter().for_each(|p| report(p));
                e
            }
            (None, parts) => parts.into_iter().fold(e, Error::note),
        }
    }

    /// Return an error if a gradient is NaN.
    #[inline]
    pub(crate) fn check(&self, node: &Arc<Node>, grads: &Grads) -> Result<()> {
        if !(self.detect && self.check_nan) {
            return Ok(());
        }
        let _mode = GradMode::set(false);
        for (i, g) in grads.iter().enumerate() {
            let Some(g) = g else { continue };
            if g.dtype().is_float() && has_nan(g)? {
                let e = Error::runtime(format!("Function '{}' returned nan values in its {i}th output.", node.name()));
                return Err(self.failed(node, e));
            }
        }
        Ok(())
    }
}

fn has_nan(g: &Tensor) -> Result<bool> {
    no_grad(|| Ok(g.ne(g)?.sum()?.item_f64()? != 0.0))
}

/// Return a text about the creation of a node, and one for each node that induced it.
fn creation_texts(node: &Arc<Node>) -> Vec<String> {
    let known = |n: &Arc<Node>| {
        let extras = n.extras_if_any()?.lock().unwrap_or_else(|e| e.into_inner());
        Some((extras.traceback.clone()?, extras.parent.clone()))
    };
    let Some((text, mut parent)) = known(node) else {
        return vec![format!(
            "Error detected in {}. No forward pass information available. Enable detect anomaly during forward pass \
            for more information.",
            node.name()
        )];
    };
    let mut parts =
        vec![format!("Error detected in {}. Traceback of forward call that caused the error:\n{text}", node.name())];
    while let Some(n) = parent {
        parent = match known(&n) {
            Some((text, next)) => {
                parts.push(format!(
                    "\n\nPrevious calculation was induced by {}. Traceback of forward call that induced the previous \
                    calculation:\n{text}",
                    n.name()
                ));
                next
            }
            None => {
                parts.push(format!(
                    "\n\nPrevious calculation was induced by {}. No forward pass information available.",
                    n.name()
                ));
                None
            }
        };
    }
    parts
}
