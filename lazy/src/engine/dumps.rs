//! Programs of pending values, as text.

use super::{Engine, Recording, State};
use crate::form::Form;
use crate::{Argument, Exported, lower, precision};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use torchtpu_stablehlo::Profile;
use torchtpu_tensor::{DType, Device, Error, Meta, Result};

impl Engine {
    /// Give all ops the precision that holds now, where recorded ops have none.
    fn state_precision(&self, form: &mut Form) {
        if !self.multiplies_in_passes.load(Relaxed) {
            form.nodes.iter_mut().for_each(|n| n.precision = precision::get());
        }
    }

    /// Return the module that would compute a pending value.
    pub(crate) fn dump(&self, handle: u64, profile: &Profile) -> Result<String> {
        let (mut form, value) = self.pending(handle)?;
        self.state_precision(&mut form);
        lower::module(&form, &[value], profile, &[]).map(|m| m.text).map_err(|f| f.error())
    }

    /// Return the module that would compute several pending values of one segment.
    pub(crate) fn dump_all(&self, handles: &[u64], profile: &Profile) -> Result<String> {
        let mut r = self.recording.lock();
        let (stream, values) = r.pending_together(handles)?;
        let mut form = r.streams[stream as usize].body.form.clone();
        drop(r);
        self.state_precision(&mut form);
        lower::module(&form, &values, profile, &[]).map(|m| m.text).map_err(|f| f.error())
    }

    /// See [`crate::export`].
    pub(crate) fn export(&self, outputs: &[u64], inputs: &[u64]) -> Result<Exported> {
        let mut r = self.recording.lock();
        let (stream, values) = r.pending_together(outputs)?;
        let mut slots = Vec::with_capacity(inputs.len());
        for &h in inputs {
            match &r.entry(h)?.state {
                State::Held(slot) => slots.push(slot.clone()),
                _ => return Err(Error::value("an input must be computed already, but is still pending")),
            }
        }
        let body = &r.streams[stream as usize].body;
        let mut ascending = values.clone();
        ascending.sort_unstable();
        ascending.dedup();
        let needed = body.form.needed(&ascending);
        let mut part = body.form.extract((0..body.form.nodes.len()).filter(|&n| needed[n]), &ascending);
        self.state_precision(&mut part.form);
        let results = values.iter().map(|v| ascending.binary_search(v).unwrap_or_default()).collect();
        let part = body.of_part(part, |_| None);
        drop(r);
        let text = lower::module(&part.form, &part.form.outputs, &Profile::UNKNOWN, &[]).map_err(|f| f.error())?.text;
        let mut arguments = Vec::with_capacity(part.slots.len() + 1);
        for slot in &part.slots {
            if let Some(i) = slots.iter().position(|s| Arc::ptr_eq(s, slot)) {
                arguments.push(Argument::Input(i));
                continue;
            }
            let mut bytes = vec![0; slot.meta.bytes().unwrap_or(0)];
            slot.copy_to(&mut bytes).map_err(|f| f.error())?;
            arguments.push(Argument::Constant(slot.meta, bytes));
        }
        for (dtype, bytes) in DType::ALL.into_iter().zip(part.numbers).filter(|(_, bytes)| !bytes.is_empty()) {
            let count = bytes.len() / dtype.size_bytes();
            arguments.push(Argument::Constant(Meta::new(&[count], dtype, Device::TPU), bytes));
        }
        Ok(Exported { text, arguments, results })
    }

    /// Return the ops that would compute a pending value, one per line.
    pub(crate) fn dump_graph(&self, handle: u64) -> Result<String> {
        let (form, value) = self.pending(handle)?;
        Ok(form.graph(value))
    }

    /// Return the segment that computes a value, and the number of the value in it.
    pub(super) fn pending(&self, handle: u64) -> Result<(Form, u32)> {
        let mut r = self.recording.lock();
        let (stream, value) = match &r.entry(handle)?.state {
            State::Pending { stream, value } => (*stream as usize, *value),
            _ => {
                return Err(Error::value("the value is computed already: only a pending value has a program"));
            }
        };
        Ok((r.streams[stream].body.form.clone(), value))
    }
}

impl Recording {
    /// Return the stream whose segment will compute all of these values, and the numbers of the values in that segment.
    fn pending_together(&mut self, handles: &[u64]) -> Result<(u32, Vec<u32>)> {
        let mut from = None;
        let mut values = Vec::with_capacity(handles.len());
        for &h in handles {
            match &self.entry(h)?.state {
                State::Pending { stream, value } if from.is_none_or(|s| s == *stream) => {
                    from = Some(*stream);
                    values.push(*value);
                }
                _ => return Err(Error::value("the values are not pending in one segment")),
            }
        }
        Ok((from.ok_or_else(|| Error::value("no value was named"))?, values))
    }
}
