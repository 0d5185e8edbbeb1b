//! The data of all optimisers: groups of parameters, settings of each group, and state of each parameter.

use super::{Optimizer, check_parameters, follow_parameter};
use crate::{Parameter, StateDict};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use torchtpu_tensor::{DType, Device, DeviceKind, Error, Result, Tensor, backend, no_grad};

/// A setting of a group of parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Setting {
    /// A number, such as `lr`.
    Number(f64),
    /// Two numbers, such as `betas`.
    Pair(f64, f64),
    /// A truth value, such as `nesterov`.
    Flag(bool),
}

/// A mutable reference to a setting.
pub(super) enum Slot<'a> {
    Number(&'a mut f64),
    Pair(&'a mut (f64, f64)),
    Flag(&'a mut bool),
}

/// Settings that are accessed by PyTorch's names.
pub(super) trait Settings: Copy {
    /// Names of a parameter's state, in the order of [`ParameterState`].
    const STATE: &'static [&'static str];
    /// Whether steps are counted.
    const COUNTS: bool;
    /// Refuse invalid settings.
    fn check(&self) -> Result<()>;
    /// Return all settings.
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)>;
    /// Return the state before the first step.
    fn initial_state(&self, _p: &Tensor) -> Result<Option<ParameterState>> {
        Ok(None)
    }
}

/// The state of one parameter.
#[derive(Clone, Debug)]
pub(super) struct ParameterState {
    pub steps: u64,
    pub tensors: Vec<Option<Tensor>>,
}

impl ParameterState {
    pub fn new(tensors: Vec<Option<Tensor>>) -> ParameterState {
        ParameterState { steps: 0, tensors }
    }
    /// Move state to the device of its parameter, in case the module was moved.
    pub fn follow_parameter(&mut self, p: &Tensor) -> Result<()> {
        self.tensors.iter_mut().flatten().try_for_each(|t| follow_parameter(t, p))
    }
}

#[derive(Clone, Copy, Debug)]
struct Group<O> {
    /// End of the group's parameters.
    end: usize,
    options: O,
    initial_lr: Option<f64>,
}

/// Groups of parameters, and their state.
#[derive(Debug)]
pub(super) struct Groups<O> {
    parameters: Vec<Parameter>,
    groups: Vec<Group<O>>,
    states: Vec<Option<ParameterState>>,
    /// Number that identifies the optimiser.
    id: u64,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl<O: Settings> Groups<O> {
    pub fn new(parameters: Vec<Parameter>, options: O) -> Result<Groups<O>> {
        let mut all = Groups {
            parameters: Vec::new(),
            groups: Vec::new(),
            states: Vec::new(),
            id: NEXT_ID.fetch_add(1, Relaxed),
        };
        all.add(parameters, options)?;
        Ok(all)
    }
    pub fn add(&mut self, parameters: Vec<Parameter>, options: O) -> Result<()> {
        options.check()?;
        let mut all = self.parameters.clone();
        all.extend(parameters);
        check_parameters(&all)?;
        for p in &all[self.parameters.len()..] {
            self.states.push(options.initial_state(&p.tensor())?);
        }
        self.groups.push(Group { end: all.len(), options, initial_lr: None });
        self.parameters = all;
        Ok(())
    }
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }
    /// Update every parameter that has a gradient, by its gradient, its group's settings and its state.
    pub fn step(
        &mut self,
        mut update: impl FnMut(&O, &Tensor, Tensor, &mut Option<ParameterState>) -> Result<()>,
    ) -> Result<()> {
        let on_accelerator = self.parameters.iter().any(|p| p.tensor().device().kind == DeviceKind::Tpu);
        if on_accelerator {
            let backend = backend::get()?;
            backend.step_begins(self.id, true);
            if backend.has_checks() {
                let gradients: Vec<Tensor> = self.parameters.iter().filter_map(|p| p.tensor().grad()).collect();
                let is_local = |g: &&Tensor| g.place().is_tpu();
                let values: Vec<u64> =
                    gradients.iter().filter(is_local).map(Tensor::device_value).collect::<Result<_>>()?;
                if let Err(e) = backend.step_reads(&values) {
                    backend.step_boundary();
                    return Err(e);
                }
            }
        }
        let result = no_grad(|| {
            let mut start = 0;
            for group in &self.groups {
                let here = start..group.end;
                start = group.end;
                for (p, state) in self.parameters[here.clone()].iter().zip(&mut self.states[here]) {
                    let p = p.tensor();
                    if let Some(g) = p.grad() {
                        if let Some(s) = state {
                            s.follow_parameter(&p)?;
                        }
                        update(&group.options, &p, g, state)?;
                    }
                }
            }
            Ok(())
        });
        if on_accelerator {
            let backend = backend::get()?;
            backend.step_boundary();
            if backend.has_checks() {
                return result.and(backend.step_errors());
            }
        }
        result
    }
    pub fn param_groups(&self) -> Vec<ParamGroup> {
        let mut start = 0;
        let one = |g: &Group<O>| {
            let params = (start..g.end).collect();
            start = g.end;
            let mut options = g.options;
            let mut settings: Vec<(String, Setting)> = options
                .slots()
                .into_iter()
                .map(|(name, slot)| {
                    let value = match slot {
                        Slot::Number(x) => Setting::Number(*x),
                        Slot::Pair(x) => Setting::Pair(x.0, x.1),
                        Slot::Flag(x) => Setting::Flag(*x),
                    };
                    (name.to_string(), value)
                })
                .collect();
            if let Some(lr) = g.initial_lr {
                settings.push(("initial_lr".to_string(), Setting::Number(lr)));
            }
            ParamGroup { params, settings }
        };
        self.groups.iter().map(one).collect()
    }
    pub fn set(&mut self, group: usize, name: &str, value: Setting) -> Result<()> {
        let count = self.groups.len();
        let Some(g) = self.groups.get_mut(group) else {
            return Err(Error::index(format!("there is no parameter group {group}; there are {count}")));
        };
        if let ("initial_lr", Setting::Number(lr)) = (name, value) {
            g.initial_lr = Some(lr);
            return Ok(());
        }
        let slot = g.options.slots().into_iter().find(|(known, _)| *known == name).map(|(_, slot)| slot);
        match (slot, value) {
            (Some(Slot::Number(x)), Setting::Number(new)) => *x = new,
            (Some(Slot::Pair(x)), Setting::Pair(a, b)) => *x = (a, b),
            (Some(Slot::Flag(x)), Setting::Flag(new)) => *x = new,
            (Some(_), value) => return Err(Error::type_error(format!("{name}: {value:?} is of the wrong kind"))),
            (None, _) => return Err(Error::value(format!("this optimizer has no setting {name:?}"))),
        }
        Ok(())
    }
    pub fn state_dict(&self) -> Result<OptimizerState> {
        let mut all = OptimizerState { state: BTreeMap::new(), param_groups: self.param_groups() };
        for (i, state) in self.states.iter().enumerate() {
            let Some(state) = state else { continue };
            let mut named = StateDict::new();
            if O::COUNTS {
                named.push(("step".into(), Tensor::full(&[], state.steps as f64, DType::F32, Device::CPU)?));
            }
            for (name, t) in O::STATE.iter().zip(&state.tensors) {
                if let Some(t) = t {
                    named.push((name.to_string(), no_grad(|| t.copy())?));
                }
            }
            all.state.insert(i, named);
        }
        Ok(all)
    }
    pub fn load_state_dict(&mut self, from: &OptimizerState) -> Result<()> {
        if from.param_groups.len() != self.groups.len() {
            return Err(Error::value("loaded state dict has a different number of parameter groups"));
        }
        let mine = self.param_groups();
        if mine.iter().zip(&from.param_groups).any(|(a, b)| a.params.len() != b.params.len()) {
            return Err(Error::value(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
            ));
        }
        // Read everything before changing anything, so that an error leaves the optimiser unchanged.
        let mut states = vec![None; self.parameters.len()];
        let theirs = from.param_groups.iter().flat_map(|g| &g.params);
        for ((i, p), number) in self.parameters.iter().enumerate().zip(theirs) {
            if let Some(named) = from.state.get(number) {
                states[i] = Some(Self::state_of(&p.tensor(), named, *number)?);
            }
        }
        let before = self.groups.clone();
        for (i, g) in from.param_groups.iter().enumerate() {
            self.groups[i].initial_lr = None;
            for (name, value) in &g.settings {
                // Ignore settings that only PyTorch has (`foreach`, `fused`).
                let known = name == "initial_lr" || mine[i].settings.iter().any(|(n, _)| n == name);
                if known && let Err(e) = self.set(i, name, *value) {
                    self.groups = before;
                    return Err(e);
                }
            }
        }
        self.states = states;
        Ok(())
    }
    fn state_of(p: &Tensor, named: &StateDict, number: usize) -> Result<ParameterState> {
        let find = |name: &str| named.iter().find(|(n, _)| n == name).map(|(_, t)| t);
        let tensors = O::STATE
            .iter()
            .map(|name| {
                let Some(t) = find(name) else { return Ok(None) };
                if t.dims() != p.dims() {
                    return Err(Error::value(format!(
                        "loaded state dict: {name} of parameter {number} has size {}, the parameter has {}",
                        t.dims(),
                        p.dims()
                    )));
                }
                no_grad(|| t.detach().to_dtype(p.dtype())?.copy()?.to_device(p.place())).map(Some)
            })
            .collect::<Result<Vec<_>>>()?;
        let steps = match find("step") {
            Some(t) => t.item_f64()? as u64,
            None => 0,
        };
        Ok(ParameterState { steps, tensors })
    }
}

/// A group of parameters and its settings, by PyTorch's names.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ParamGroup {
    /// Indices of the group's parameters in [`Optimizer::parameters`].
    pub params: Vec<usize>,
    /// Settings of the group.
    pub settings: Vec<(String, Setting)>,
}

impl ParamGroup {
    /// Return a setting by its name.
    pub fn get(&self, name: &str) -> Option<Setting> {
        self.settings.iter().find(|(n, _)| n == name).map(|(_, value)| *value)
    }
}

/// Everything that an optimiser needs to continue another one, in PyTorch's layout.
///
/// [`OptimizerState::to_tensors`] converts it to one list of named tensors, which [`safetensors`](crate::safetensors)
/// writes:
///
/// | key | tensor |
/// |---|---|
/// | `state.{parameter}.{name}` | the parameter's state: `exp_avg`, `momentum_buffer`; `step` is a 0-d `float32` |
/// | `param_groups.{group}.params` | numbers of the group's parameters, `int64` |
/// | `param_groups.{group}.{setting}` | `float64`, 0-d or of 2 elements, or a 0-d `bool` |
///
/// ```
/// use torchtpu_nn::optim::{Adam, AdamOptions, Optimizer, OptimizerState};
/// use torchtpu_nn::{Linear, Module};
///
/// let model = Linear::new(2, 1)?;
/// let optimizer = Adam::new(model.parameters(), AdamOptions { lr: 0.5, ..AdamOptions::adam() })?;
/// let saved = optimizer.state_dict()?.to_tensors()?; // for `safetensors::save_file`
/// let mut other = Adam::new(model.parameters(), AdamOptions::adam())?;
/// other.load_state_dict(&OptimizerState::from_tensors(&saved)?)?;
/// assert_eq!(other.lr(), 0.5);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OptimizerState {
    /// State by the index of the parameter. A parameter that has taken no step may have none.
    pub state: BTreeMap<usize, StateDict>,
    /// The groups.
    pub param_groups: Vec<ParamGroup>,
}

impl OptimizerState {
    /// Convert everything to named tensors.
    ///
    /// # Errors
    /// Returns the errors of making tensors.
    pub fn to_tensors(&self) -> Result<StateDict> {
        let mut all = StateDict::new();
        for (i, named) in &self.state {
            all.extend(named.iter().map(|(name, t)| (format!("state.{i}.{name}"), t.clone())));
        }
        for (i, g) in self.param_groups.iter().enumerate() {
            let params: Vec<i64> = g.params.iter().map(|&n| n as i64).collect();
            all.push((format!("param_groups.{i}.params"), Tensor::from_slice(&params, &[params.len()])?));
            for (name, value) in &g.settings {
                let t = match *value {
                    Setting::Number(x) => Tensor::from_slice(&[x], &[])?,
                    Setting::Pair(a, b) => Tensor::from_slice(&[a, b], &[2])?,
                    Setting::Flag(x) => Tensor::from_slice(&[x], &[])?,
                };
                all.push((format!("param_groups.{i}.{name}"), t));
            }
        }
        Ok(all)
    }
    /// Convert back from the tensors of [`OptimizerState::to_tensors`].
    ///
    /// # Errors
    /// Fails with `Value` for other names or tensors.
    pub fn from_tensors(tensors: &[(String, Tensor)]) -> Result<OptimizerState> {
        let mut all = OptimizerState::default();
        let mut groups: BTreeMap<usize, ParamGroup> = BTreeMap::new();
        for (key, t) in tensors {
            let unknown = || Error::value(format!("state of an optimizer: unexpected {key:?}"));
            let mut parts = key.splitn(3, '.');
            let (kind, number, name) = (parts.next(), parts.next(), parts.next());
            let number: usize = number.and_then(|n| n.parse().ok()).ok_or_else(unknown)?;
            let name = name.ok_or_else(unknown)?;
            if kind == Some("state") {
                all.state.entry(number).or_default().push((name.to_string(), t.clone()));
                continue;
            }
            if kind != Some("param_groups") {
                return Err(unknown());
            }
            let group = groups.entry(number).or_default();
            if name == "params" {
                group.params = t.to_vec::<i64>()?.into_iter().map(|n| n as usize).collect();
                continue;
            }
            let value = match (t.dtype(), t.numel()) {
                (DType::Bool, 1) => Setting::Flag(t.item_f64()? != 0.0),
                (_, 1) => Setting::Number(t.item_f64()?),
                (_, 2) => {
                    let v = t.to_vec::<f64>()?;
                    Setting::Pair(v[0], v[1])
                }
                _ => return Err(unknown()),
            };
            group.settings.push((name.to_string(), value));
        }
        if groups.keys().enumerate().any(|(i, &n)| i != n) {
            return Err(Error::value("state of an optimizer: a parameter group is missing"));
        }
        all.param_groups = groups.into_values().collect();
        Ok(all)
    }
}

/// Return a number such as the learning rate for every group.
pub(super) fn numbers(optimizer: &(impl Optimizer + ?Sized), name: &str) -> Vec<Option<f64>> {
    let number = |g: ParamGroup| match g.get(name) {
        Some(Setting::Number(x)) => Some(x),
        _ => None,
    };
    optimizer.param_groups().into_iter().map(number).collect()
}
