//! What would be computed, as text.

use super::{Engine, State};
use crate::form::Form;
use crate::{lower, precision};
use torchtpu_stablehlo::Platform;
use torchtpu_tensor::{Error, Result};

impl Engine {
    /// The module that would compute a value that is still to be computed.
    pub(crate) fn dump(&self, handle: u64, platform: Platform) -> Result<String> {
        let (mut form, value) = self.pending(handle)?;
        form.precision = precision::get();
        lower::module(&form, &[value], platform).map(|m| m.text).map_err(|f| f.error())
    }

    /// The module that would compute several values of one segment.
    pub(crate) fn dump_all(&self, handles: &[u64], platform: Platform) -> Result<String> {
        let mut r = self.recording.lock();
        let mut from = None;
        let mut values = Vec::with_capacity(handles.len());
        for &h in handles {
            match &r.entry(h)?.state {
                State::Pending { stream, value } if from.is_none_or(|s| s == *stream) => {
                    from = Some(*stream);
                    values.push(*value);
                }
                _ => return Err(Error::value("the values are not all to be computed by one segment")),
            }
        }
        let Some(stream) = from else { return Err(Error::value("no value was named")) };
        let mut form = r.streams[stream as usize].body.form.clone();
        drop(r);
        form.precision = precision::get();
        lower::module(&form, &values, platform).map(|m| m.text).map_err(|f| f.error())
    }

    /// The ops that would compute a value that is still to be computed, a line each.
    pub(crate) fn dump_graph(&self, handle: u64) -> Result<String> {
        let (form, value) = self.pending(handle)?;
        Ok(form.graph(value))
    }

    /// The segment that computes a value, and which of its values that is.
    pub(super) fn pending(&self, handle: u64) -> Result<(Form, u32)> {
        let mut r = self.recording.lock();
        let (stream, value) = match &r.entry(handle)?.state {
            State::Pending { stream, value } => (*stream as usize, *value),
            _ => {
                return Err(Error::value("the value is computed already; only one still to be computed has a program"));
            }
        };
        Ok((r.streams[stream].body.form.clone(), value))
    }
}
