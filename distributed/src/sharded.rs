//! Sharded tensors. A sharded tensor has the sizes of the whole, and each process has a part of its elements.
//!
//! A mesh of processes is a device ([`DeviceKind::Mesh`](torchtpu_tensor::DeviceKind)), and a sharded tensor is a
//! tensor on it. This module is the backend of that device: its values are parts with a [`Spec`]. An op is recorded
//! with the whole sizes, so shape checks, history, views and in-place forms are those of other devices. To run it, the
//! backend asks [`propagate`] for placements, redistributes the operands, and calls the op on the parts.
//!
//! All processes of a mesh run the same calls in the same order.

use crate::mesh::DeviceMesh;
use crate::placement::{Placement, text};
use crate::redistribute::{Exchange, Step, route};
use crate::shard::propagate;
use crate::spec::Spec;
use crate::{Op, ProcessGroup, Request};
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Once};
use torchtpu_tensor::backend::{self, Backend, MESH_VALUE, Operand};
use torchtpu_tensor::graph::{BackwardFn, Node};
use torchtpu_tensor::op::{Grads, Prim};
use torchtpu_tensor::ops::concat::cat;
use torchtpu_tensor::{
    Device, DeviceKind, Dims, Error, GradRef, Meta, Result, Tensor, autocast, dispatch, no_grad, random, state,
};

/// A mesh of processes to which this one belongs.
pub struct Member {
    /// The mesh.
    pub mesh: Arc<DeviceMesh>,
    /// The position of this process.
    pub coordinate: Vec<usize>,
    /// The group of this process along each mesh dimension.
    pub groups: Vec<ProcessGroup>,
    /// The device of the parts.
    pub local: Device,
    /// The device of the whole tensors.
    pub device: Device,
}

static MEMBERS: RwLock<Vec<Arc<Member>>> = RwLock::new(Vec::new());

impl Member {
    /// Make the device of a mesh. All processes of the mesh call this. `groups` has the group of this process along
    /// each mesh dimension, and `local` is the device of the parts. The generator of the device starts with the seed of
    /// the first process.
    ///
    /// # Errors
    /// `Value` if this process is not in the mesh or the groups have other sizes, the errors of a broadcast.
    pub fn new(mesh: Arc<DeviceMesh>, rank: usize, groups: Vec<ProcessGroup>, local: Device) -> Result<Arc<Member>> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| backend::install_mesh(&Parts));
        let Some(coordinate) = mesh.coordinate(rank) else {
            return Err(Error::value(format!("rank {rank} is not in the mesh {mesh}")));
        };
        let sizes: Vec<usize> = groups.iter().map(ProcessGroup::size).collect();
        if sizes != mesh.sizes() {
            return Err(Error::value(format!("groups of sizes {sizes:?} do not fit the mesh {mesh}")));
        }
        let mut seed = random::default_generator(local).initial_seed().to_le_bytes();
        for group in &groups {
            group.run(&Request::new(Op::Broadcast { root: 0 }, torchtpu_tensor::DType::U8, &[8]), &[], &mut seed)?;
        }
        let mut members = MEMBERS.write();
        let device = backend::add_mesh(local)?;
        random::default_generator(device).manual_seed(u64::from_le_bytes(seed));
        let member = Arc::new(Member { mesh, coordinate, groups, local, device });
        members.push(member.clone());
        Ok(member)
    }

    /// Return the membership with this device.
    ///
    /// # Errors
    /// `Runtime` if the device is not that of a mesh.
    pub fn of(device: Device) -> Result<Arc<Member>> {
        let members = MEMBERS.read();
        let found = members.iter().find(|p| p.device == device);
        found.cloned().ok_or_else(|| Error::runtime(format!("{device} is not the device of a mesh")))
    }

    fn sizes(&self) -> Vec<usize> {
        self.mesh.sizes()
    }

    /// Take the steps from placements to others on the part of a tensor of sizes `dims`.
    fn redistributed(&self, x: &Tensor, dims: &Dims, from: &[Placement], to: &[Placement]) -> Result<Tensor> {
        let mut x = x.clone();
        for step in route(dims, &self.sizes(), &self.coordinate, from, to) {
            x = self.take(&step, &x)?;
        }
        Ok(x)
    }

    fn take(&self, step: &Step, x: &Tensor) -> Result<Tensor> {
        let x = step.before(x)?;
        let Some(exchange) = step.exchange() else { return step.after(&x) };
        BYTES.fetch_add(step.bytes(x.dtype().size_bytes()) as u64, Relaxed);
        step.after(&exchanged(&self.groups[step.mesh_dim], exchange, &x)?.to_device(self.local)?)
    }
}

/// Run a collective of equal tensors. The result is on `cpu`.
fn exchanged(group: &ProcessGroup, exchange: Exchange, x: &Tensor) -> Result<Tensor> {
    let (n, dtype) = (group.size(), x.dtype());
    let run = |op: Op, input: &Tensor, dims: &[usize]| -> Result<Tensor> {
        let shape = if matches!(op, Op::ReduceScatter(_)) { dims } else { &input.dims()[..] };
        let mut y = vec![0; dims.iter().product::<usize>() * dtype.size_bytes()];
        group.run(&Request::new(op, dtype, shape), &input.to_bytes()?, &mut y)?;
        Tensor::from_bytes(&y, dims, dtype)
    };
    // A block for each rank, as a new first dimension.
    let stacked = |dim: usize| -> Result<Tensor> {
        let size = x.dims()[dim] / n;
        let block = |i: usize| x.narrow(dim as i64, (i * size) as i64, size as i64)?.unsqueeze(0);
        let blocks = (0..n).map(block).collect::<Result<Vec<_>>>()?;
        cat(&blocks.iter().collect::<Vec<_>>(), 0)
    };
    let joined = |y: &Tensor, dim: usize| -> Result<Tensor> {
        let blocks = (0..n).map(|i| y.select(0, i as i64)).collect::<Result<Vec<_>>>()?;
        cat(&blocks.iter().collect::<Vec<_>>(), dim as i64)
    };
    match exchange {
        Exchange::AllReduce(op) => {
            let mut y = x.to_bytes()?;
            group.run(&Request::new(Op::AllReduce(op), dtype, x.dims()), &[], &mut y)?;
            Tensor::from_bytes(&y, x.dims(), dtype)
        }
        Exchange::AllGather { dim } => {
            let dims = [&[n], &x.dims()[..]].concat();
            joined(&run(Op::AllGather, x, &dims)?, dim)
        }
        Exchange::ReduceScatter { op, dim } => {
            let x = stacked(dim)?;
            run(Op::ReduceScatter(op), &x, &x.dims()[1..])
        }
        Exchange::AllToAll { split, concat } => {
            let x = stacked(split)?;
            let op = Op::AllToAll { sent: vec![1; n], received: vec![1; n] };
            joined(&run(op, &x, x.dims())?, concat)
        }
    }
}

/// The part of a sharded tensor.
#[derive(Clone)]
enum Part {
    /// It is this tensor.
    Local(Tensor),
    /// It is one number, repeated. It takes no memory before it is read.
    Fill(Prim, Tensor),
}

/// A value of the device of a mesh.
#[derive(Clone)]
struct Value {
    member: Arc<Member>,
    placements: Vec<Placement>,
    /// The whole, on the device of the mesh.
    meta: Meta,
    part: Part,
}

impl Value {
    fn spec(&self) -> Spec {
        Spec { mesh: self.member.mesh.clone(), placements: self.placements.clone(), meta: self.meta }
    }

    /// The whole, as the parts describe it.
    fn local_meta(&self) -> Meta {
        Meta { device: self.member.local, ..self.meta }
    }

    fn local(&self) -> Result<Tensor> {
        match &self.part {
            Part::Local(x) => Ok(x.clone()),
            Part::Fill(op, number) => {
                let meta = self.local_meta().with_dims(self.spec().local_dims(&self.member.coordinate));
                dispatch::call(op.resized(&[*number.meta()], &[meta]), &[number])
            }
        }
    }

    /// The same tensor with other placements.
    fn redistributed(&self, to: &[Placement]) -> Result<Value> {
        if to == self.placements {
            return Ok(self.clone());
        }
        let is_simple = |p: &[Placement]| p.iter().all(|p| p.partial().is_none());
        let part = match &self.part {
            part @ Part::Fill(..) if is_simple(&self.placements) && is_simple(to) => part.clone(),
            _ => Part::Local(self.member.redistributed(&self.local()?, &self.meta.dims, &self.placements, to)?),
        };
        Ok(Value { placements: to.to_vec(), part, ..self.clone() })
    }
}

/// Values by their handles, with counts of references.
#[derive(Default)]
struct Values {
    entries: Vec<Option<(usize, Value)>>,
    free: Vec<usize>,
}

static VALUES: Mutex<Values> = Mutex::new(Values { entries: Vec::new(), free: Vec::new() });
static CALLS: AtomicU64 = AtomicU64::new(0);
static WITHOUT_RULE: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts since the start of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Ops that ran on parts.
    pub calls: u64,
    /// Ops that replicated a sharded operand, because they have no rule to divide it.
    pub without_rule: u64,
    /// Bytes that this process sent to redistribute tensors, about.
    pub bytes: u64,
}

/// Return the counts of this process.
pub fn counts() -> Counts {
    Counts { calls: CALLS.load(Relaxed), without_rule: WITHOUT_RULE.load(Relaxed), bytes: BYTES.load(Relaxed) }
}

fn add(value: Value) -> u64 {
    let mut values = VALUES.lock();
    let at = match values.free.pop() {
        Some(at) => {
            values.entries[at] = Some((1, value));
            at
        }
        None => {
            values.entries.push(Some((1, value)));
            values.entries.len() - 1
        }
    };
    MESH_VALUE | at as u64
}

fn get(handle: u64) -> Value {
    let values = VALUES.lock();
    let entry = values.entries[(handle & !MESH_VALUE) as usize].as_ref();
    entry.expect("a tensor holds the handle").1.clone()
}

/// The result of a binary op of fills and numbers, which is a fill. An optimizer scales its state of zeros so.
fn of_fills(op: &Prim, x: &[Value], y: &[Meta]) -> Result<Option<Part>> {
    if !op.facts().is_binary || !x.iter().any(|x| matches!(x.part, Part::Fill(..))) {
        return Ok(None);
    }
    let mut fill = None;
    let mut numbers = Vec::with_capacity(x.len());
    for x in x {
        numbers.push(match &x.part {
            Part::Fill(fills, number) if x.spec().is_replicated() => {
                fill = Some(fills);
                number.clone()
            }
            Part::Local(number) if x.meta.dims.is_empty() && x.spec().is_replicated() => number.clone(),
            _ => return Ok(None),
        });
    }
    let Some(fill) = fill else { return Ok(None) };
    let number = no_grad(|| dispatch::call(op.clone(), &numbers.iter().collect::<Vec<_>>()))?;
    Ok((number.dtype() == y[0].dtype).then(|| Part::Fill(fill.clone(), number)))
}

/// The backend of the devices of meshes.
struct Parts;

impl Backend for Parts {
    fn record(&self, op: &Prim, x: &[Operand<'_>], y: &[Meta], handles: &mut [u64]) -> Result<()> {
        let member = Member::of(y[0].device)?;
        let replicated = vec![Placement::Replicate; member.mesh.ndim()];
        let operand = |x: &Operand<'_>| -> Result<Value> {
            match x {
                Operand::Value(handle) => Ok(get(*handle)),
                Operand::Number { bits, meta, .. } => {
                    let bytes = &bits.to_le_bytes()[..meta.dtype.size_bytes()];
                    let number = Tensor::from_bytes(bytes, &meta.dims, meta.dtype)?;
                    let (member, placements) = (member.clone(), replicated.clone());
                    Ok(Value { member, placements, meta: **meta, part: Part::Local(number) })
                }
            }
        };
        let x = x.iter().map(operand).collect::<Result<Vec<_>>>()?;
        CALLS.fetch_add(1, Relaxed);
        let new = |placements: &[Placement], meta: &Meta, part: Part| {
            add(Value { member: member.clone(), placements: placements.to_vec(), meta: *meta, part })
        };
        if op.facts().is_fill
            && let [number] = &x[..]
            && number.spec().is_replicated()
        {
            handles[0] = new(&replicated, &y[0], Part::Fill(op.clone(), number.local()?));
            return Ok(());
        }
        if let Some(part) = of_fills(op, &x, y)? {
            handles[0] = new(&replicated, &y[0], part);
            return Ok(());
        }
        let ym: Vec<Meta> = y.iter().map(|y| Meta { device: member.local, ..*y }).collect();
        let xm: Vec<Meta> = x.iter().map(Value::local_meta).collect();
        let now: Vec<Vec<Placement>> = x.iter().map(|x| x.placements.clone()).collect();
        let (mesh, axes) = (member.sizes(), op.axes(&xm, &ym));
        let plan = propagate(&axes, &xm, &ym, &mesh, &now);
        WITHOUT_RULE.fetch_add(plan.lacks_rule.into(), Relaxed);
        let local_op = plan.local_op(op, &xm, &ym, &mesh, &member.coordinate);
        let _suspended = autocast::Suspended::new();
        let parts = no_grad(|| -> Result<Vec<Tensor>> {
            let local = |(x, to): (&Value, &Vec<Placement>)| x.redistributed(to)?.local();
            let x = x.iter().zip(&plan.operands).map(local).collect::<Result<Vec<_>>>()?;
            if let Some(dims) = plan.zeros(&xm, &ym, &mesh, &member.coordinate) {
                return dims.iter().zip(&ym).map(|(d, y)| Tensor::zeros_like_meta(&y.with_dims(*d))).collect();
            }
            if op.is_view() {
                let x = x[0].resolve_conj()?.resolve_neg()?.contiguous()?;
                let y = dispatch::call_view(local_op, &x)?;
                return Ok(vec![y.resolve_conj()?.resolve_neg()?]);
            }
            Ok(dispatch::call_n(local_op, &x.iter().collect::<Vec<_>>())?.into_vec())
        })?;
        for (i, part) in parts.into_iter().enumerate() {
            debug_assert_eq!(
                *part.dims(),
                crate::spec::local_dims(&y[i].dims, &plan.results[i], &mesh, &member.coordinate)
            );
            handles[i] = new(&plan.results[i], &y[i], Part::Local(part));
        }
        Ok(())
    }

    /// Keep the placements, except those of a fill, which are not known, and of a pending reduction.
    fn overwrite(&self, old: u64, new: u64) -> Result<u64> {
        let (before, value) = (get(old), get(new));
        let is_kept = matches!(before.part, Part::Local(_)) && before.placements.iter().all(|p| p.partial().is_none());
        if !is_kept || before.placements == value.placements {
            self.retain(new);
            return Ok(new);
        }
        Ok(add(no_grad(|| value.redistributed(&before.placements))?))
    }

    fn retain(&self, handle: u64) {
        let mut values = VALUES.lock();
        let entry = values.entries[(handle & !MESH_VALUE) as usize].as_mut();
        entry.expect("a tensor holds the handle").0 += 1;
    }

    fn release(&self, handle: u64) {
        let at = (handle & !MESH_VALUE) as usize;
        let mut values = VALUES.lock();
        let entry = values.entries[at].as_mut().expect("a tensor holds the handle");
        entry.0 -= 1;
        if entry.0 > 0 {
            return;
        }
        let value = values.entries[at].take();
        values.free.push(at);
        // The part may be a value of another backend, which is released without this lock.
        drop(values);
        drop(value);
    }

    fn read(&self, handle: u64, out: &mut [u8]) -> Result<()> {
        let value = get(handle);
        let whole = no_grad(|| value.redistributed(&vec![Placement::Replicate; value.placements.len()])?.local())?;
        out.copy_from_slice(&whole.to_bytes()?);
        Ok(())
    }

    fn upload(&self, meta: &Meta, bytes: &[u8]) -> Result<u64> {
        let member = Member::of(meta.device)?;
        let local = Tensor::from_bytes(bytes, &meta.dims, meta.dtype)?.to_device(member.local)?;
        let placements = vec![Placement::Replicate; member.mesh.ndim()];
        Ok(add(Value { member, placements, meta: *meta, part: Part::Local(local) }))
    }

    fn device_count(&self) -> Result<usize> {
        Ok(MEMBERS.read().len())
    }
}

fn value_of(x: &Tensor) -> Result<Value> {
    if x.device().kind != DeviceKind::Mesh {
        return Err(Error::runtime("the tensor is not on a mesh"));
    }
    Ok(get(x.device_value()?))
}

/// Return the description of a sharded tensor; `None` for another tensor.
///
/// # Errors
/// The errors of computing a view.
pub fn spec(x: &Tensor) -> Result<Option<Spec>> {
    if x.device().kind != DeviceKind::Mesh {
        return Ok(None);
    }
    Ok(Some(value_of(x)?.spec()))
}

/// Give `y` a history that leads to `x`.
fn with_history(y: Tensor, x: &Tensor, f: impl BackwardFn + 'static) -> Result<Tensor> {
    if state::grad_enabled() && x.requires_grad() {
        let node =
            Node::function(Box::new(f), [x.history_edge()?].into_iter().collect(), [*y.meta()].into_iter().collect());
        y.set_grad_ref(Some(GradRef::Node(node)), 0);
    }
    Ok(y)
}

/// Placements of a gradient: a value that is a pending sum has a gradient that every process has.
fn of_gradient(placements: &[Placement]) -> Vec<Placement> {
    placements.iter().map(|p| if p.partial().is_some() { Placement::Replicate } else { *p }).collect()
}

/// Return the sharded tensor of sizes `dims` whose part is `local`. It is differentiable.
///
/// # Errors
/// `Value` if the part has other sizes than the placements say, or is on another device.
pub fn from_local(member: &Arc<Member>, local: &Tensor, placements: &[Placement], dims: &[usize]) -> Result<Tensor> {
    let meta = Meta { dims: Dims::try_new(dims)?, dtype: local.dtype(), device: member.device };
    let spec = Spec::new(member.mesh.clone(), placements.to_vec(), meta)?;
    let own = spec.local_dims(&member.coordinate);
    if *local.dims() != own {
        return Err(Error::value(format!(
            "a part of sizes {} is not that of a tensor of sizes {} with placements {}, which has sizes {own}",
            local.dims(),
            meta.dims,
            text(placements)
        )));
    }
    if local.device() != member.local {
        return Err(Error::value(format!(
            "a part on {} is not on the device of the mesh, {}",
            local.device(),
            member.local
        )));
    }
    let part = Part::Local(local.detach());
    let value = add(Value { member: member.clone(), placements: placements.to_vec(), meta, part });
    let y = Tensor::from_device_value(&meta, value);
    with_history(y, local, FromLocal { placements: of_gradient(placements) })
}

struct FromLocal {
    placements: Vec<Placement>,
}

impl BackwardFn for FromLocal {
    fn name(&self) -> String {
        "FromLocalBackward".into()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        let local = |g: &Tensor| to_local(&redistribute(g, &self.placements)?, None);
        Ok([g[0].as_ref().map(local).transpose()?].into_iter().collect())
    }
}

/// Return the part of a sharded tensor that this process has. It is differentiable. `gradient` has the placements of
/// its gradient; `None` are those of `x`, where a pending reduction is replicated.
///
/// # Errors
/// `Runtime` if the tensor is not on a mesh.
pub fn to_local(x: &Tensor, gradient: Option<&[Placement]>) -> Result<Tensor> {
    let value = value_of(x)?;
    let placements = gradient.map_or_else(|| of_gradient(&value.placements), <[Placement]>::to_vec);
    let y = no_grad(|| value.local())?.detach();
    with_history(y, x, ToLocal { member: value.member.clone(), placements, dims: value.meta.dims })
}

struct ToLocal {
    member: Arc<Member>,
    placements: Vec<Placement>,
    dims: Dims,
}

impl BackwardFn for ToLocal {
    fn name(&self) -> String {
        "ToLocalBackward".into()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        let whole = |g: &Tensor| from_local(&self.member, &g.contiguous()?, &self.placements, &self.dims);
        Ok([g[0].as_ref().map(whole).transpose()?].into_iter().collect())
    }
}

/// Return the tensor with other placements. The gradient gets the placements of `x`.
///
/// # Errors
/// `Runtime` if the tensor is not on a mesh or lacks a dimension, the errors of collectives.
pub fn redistribute(x: &Tensor, placements: &[Placement]) -> Result<Tensor> {
    let value = value_of(x)?;
    Spec::new(value.member.mesh.clone(), placements.to_vec(), value.meta)?;
    let y = Tensor::from_device_value(&value.meta, add(no_grad(|| value.redistributed(placements))?));
    with_history(y, x, Redistribute { placements: of_gradient(&value.placements) })
}

struct Redistribute {
    placements: Vec<Placement>,
}

impl BackwardFn for Redistribute {
    fn name(&self) -> String {
        "RedistributeBackward".into()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        Ok([g[0].as_ref().map(|g| redistribute(g, &self.placements)).transpose()?].into_iter().collect())
    }
}

/// Return the whole tensor, on the device of the parts. It is differentiable.
///
/// # Errors
/// `Runtime` if the tensor is not on a mesh, the errors of collectives.
pub fn full_tensor(x: &Tensor) -> Result<Tensor> {
    let member = Member::of(x.device())?;
    to_local(&redistribute(x, &vec![Placement::Replicate; member.mesh.ndim()])?, None)
}

/// Shard a tensor that is whole on each process. The elements are those of the first process. It is differentiable.
///
/// # Errors
/// `Runtime` if a placement is a pending reduction or does not fit, the errors of collectives.
pub fn distribute(member: &Arc<Member>, x: &Tensor, placements: &[Placement]) -> Result<Tensor> {
    let source = x.to_device(member.local)?;
    let mut bytes = source.to_bytes()?;
    for group in &member.groups {
        let request = Request::new(Op::Broadcast { root: 0 }, x.dtype(), x.dims());
        group.run(&request, &[], &mut bytes)?;
    }
    let same = Tensor::from_bytes(&bytes, x.dims(), x.dtype())?.to_device(member.local)?;
    let y = from_local(member, &same, &vec![Placement::Replicate; member.groups.len()], x.dims())?;
    let y = no_grad(|| redistribute(&y, placements))?;
    with_history(y, &source, Distribute)
}

struct Distribute;

impl BackwardFn for Distribute {
    fn name(&self) -> String {
        "DistributeBackward".into()
    }
    fn backward(&self, g: &[Option<Tensor>]) -> Result<Grads> {
        Ok([g[0].as_ref().map(full_tensor).transpose()?].into_iter().collect())
    }
}
