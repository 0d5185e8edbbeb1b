//! Sharded tensors. A sharded tensor has the sizes of the whole, and each process has a part of its elements.
//!
//! Sharded is one of the [representations](torchtpu_tensor::Rep) of tensors, and this module implements it: its values
//! are parts with a [`Spec`]. A sharded tensor is on the device of its parts, and its [`Place`] names the mesh. An op
//! is recorded with the whole sizes, so shape checks, history, views and in-place forms are those of dense tensors. To
//! run it, this module asks [`propagate`] for placements, redistributes the operands, and calls the op on the parts.
//!
//! Redistribution calls the collectives of [`torchtpu_tensor::ops::collective`]. On device `cpu` they run at once, and
//! on device `tpu` they are recorded, so a step of sharded tensors is a program as any other step.
//!
//! All processes of a mesh run the same calls in the same order.

use crate::mesh::DeviceMesh;
use crate::placement::{Placement, text};
use crate::redistribute::{Exchange, Step, route};
use crate::shard::{Plan, propagate};
use crate::spec::Spec;
use crate::{ReduceOp, tensors};
use parking_lot::{Mutex, RwLock};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Once};
use torchtpu_tensor::backend::{self, DeferredError, Operand, Representation};
use torchtpu_tensor::comm::{self, Group};
use torchtpu_tensor::graph::{BackwardFn, Node};
use torchtpu_tensor::op::{Grads, Prim};
use torchtpu_tensor::ops::collective::{self, Reduction};
use torchtpu_tensor::{
    Device, Dims, Error, GradRef, Meta, Place, Rep, Result, Tensor, autocast, dispatch, no_grad, random, state, warning,
};

/// A mesh of processes, as this one sees it. A process that the mesh lacks makes the same calls. Its tensors have no
/// elements.
pub struct Member {
    /// The mesh.
    pub mesh: Arc<DeviceMesh>,
    /// The position of this process; empty if the mesh lacks it.
    pub coordinate: Vec<usize>,
    /// The group of this process along each mesh dimension.
    pub groups: Vec<Group>,
    /// The device of the parts.
    pub local: Device,
    /// The place of the whole tensors.
    pub place: Place,
}

static MEMBERS: RwLock<Vec<Arc<Member>>> = RwLock::new(Vec::new());

impl Member {
    /// Make the place of the sharded tensors of a mesh. All processes of the mesh call this. `groups` has the group of
    /// this process along each mesh dimension, and `local` is the device of the parts. The generator of the place
    /// starts with the seed of the first process. A planned device has no other processes, so its generator has the
    /// seed of this one.
    ///
    /// # Errors
    /// `Value` if the groups have other sizes, the errors of a broadcast.
    pub fn new(mesh: Arc<DeviceMesh>, rank: usize, groups: Vec<Group>, local: Device) -> Result<Arc<Member>> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| backend::install_representation(Rep::Sharded, &Parts));
        let coordinate = mesh.coordinate(rank);
        let sizes: Vec<usize> = groups.iter().map(Group::size).collect();
        if coordinate.is_some() && sizes != mesh.sizes() {
            return Err(Error::value(format!("groups of sizes {sizes:?} do not fit the mesh {mesh}")));
        }
        if let Some(known) = known(&mesh, &groups, local) {
            return Ok(known);
        }
        let mut seed = random::default_generator(local).initial_seed();
        for group in groups.iter().filter(|group| comm::needs_turn(group, local)) {
            let own = Tensor::from_slice(&[seed as i64], &[1])?;
            seed = collective::broadcast(&own, 0, group)?.to_vec::<i64>()?[0] as u64;
        }
        added(Member { mesh, coordinate: coordinate.unwrap_or_default(), groups, local, place: Place::META }, seed)
    }

    /// Return the membership in the same mesh with parts on another device.
    ///
    /// # Errors
    /// `Runtime` after 256 meshes.
    pub fn on(&self, local: Device) -> Result<Arc<Member>> {
        if let Some(known) = known(&self.mesh, &self.groups, local) {
            return Ok(known);
        }
        let seed = random::default_generator(self.place).initial_seed();
        let (mesh, coordinate, groups) = (self.mesh.clone(), self.coordinate.clone(), self.groups.clone());
        added(Member { mesh, coordinate, groups, local, place: self.place }, seed)
    }

    /// Return the membership with this place.
    ///
    /// # Errors
    /// `Runtime` if it is not the place of sharded tensors.
    pub fn of(place: Place) -> Result<Arc<Member>> {
        let members = MEMBERS.read();
        let found = members.iter().find(|p| p.place == place);
        found.cloned().ok_or_else(|| Error::runtime(format!("{place:?} is not the place of sharded tensors")))
    }

    /// Return the membership with this number, which is the [`Place::member`] of its tensors.
    ///
    /// # Errors
    /// `Runtime` if there is none.
    pub fn numbered(number: u8) -> Result<Arc<Member>> {
        let found = MEMBERS.read().get(usize::from(number)).cloned();
        found.ok_or_else(|| Error::runtime(format!("there is no mesh {number} with sharded tensors")))
    }

    /// Return the first membership in the same mesh.
    pub fn first(&self) -> Arc<Member> {
        let same = |m: &&Arc<Member>| m.mesh == self.mesh && numbers(&m.groups) == numbers(&self.groups);
        MEMBERS.read().iter().find(same).cloned().expect("it is a member itself")
    }

    fn sizes(&self) -> Vec<usize> {
        self.mesh.sizes()
    }

    fn is_outside(&self) -> bool {
        self.coordinate.len() != self.mesh.ndim()
    }

    /// The part of a process that the mesh lacks: an empty tensor, or the number 0 of a 0-d tensor, as PyTorch has it.
    fn nothing(&self, whole: &Meta) -> Result<Tensor> {
        let dims = if whole.dims.is_empty() { whole.dims } else { Dims::new(&[0]) };
        Tensor::zeros_like_meta(&Meta { dims, dtype: whole.dtype, place: self.local.into() })
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
        let line = state::place().map(Arc::from);
        step.after(&tensors::at_line(line, || exchanged(&self.groups[step.mesh_dim], exchange, &x))?)
    }
}

fn numbers(groups: &[Group]) -> Vec<u32> {
    groups.iter().map(Group::number).collect()
}

/// Return the membership that was made before.
fn known(mesh: &DeviceMesh, groups: &[Group], local: Device) -> Option<Arc<Member>> {
    let is_same = |m: &&Arc<Member>| m.local == local && *m.mesh == *mesh && numbers(&m.groups) == numbers(groups);
    MEMBERS.read().iter().find(is_same).cloned()
}

/// Give a membership a place whose generator has this seed.
fn added(member: Member, seed: u64) -> Result<Arc<Member>> {
    let mut members = MEMBERS.write();
    let Ok(number) = u8::try_from(members.len()) else {
        return Err(Error::runtime("a process can have at most 256 meshes with sharded tensors"));
    };
    let place = Place { device: member.local, rep: Rep::Sharded, member: number };
    random::default_generator(place).manual_seed(seed);
    let member = Arc::new(Member { place, ..member });
    members.push(member.clone());
    Ok(member)
}

/// Run or record a collective of equal tensors.
fn exchanged(group: &Group, exchange: Exchange, x: &Tensor) -> Result<Tensor> {
    let n = group.size();
    // The blocks of a dimension, one after another along the first dimension.
    let stacked = |x: &Tensor, dim: usize| -> Result<Tensor> {
        if dim == 0 {
            return x.contiguous();
        }
        let mut sizes = signed(x.dims());
        sizes.splice(dim..=dim, [n as i64, sizes[dim] / n as i64]);
        let mut dims = signed(x.dims());
        dims[dim] /= n as i64;
        dims[0] *= n as i64;
        x.reshape(&sizes)?.movedim(&[dim as i64], &[0])?.reshape(&dims)
    };
    // The inverse.
    let joined = |y: &Tensor, dim: usize| -> Result<Tensor> {
        if dim == 0 {
            return Ok(y.clone());
        }
        let mut sizes = signed(y.dims());
        sizes.splice(0..1, [n as i64, sizes[0] / n as i64]);
        let mut dims = sizes[1..].to_vec();
        dims[dim] *= n as i64;
        y.reshape(&sizes)?.movedim(&[0], &[dim as i64])?.reshape(&dims)
    };
    match exchange {
        Exchange::AllReduce(op) => reduced(op, x, group, collective::all_reduce),
        Exchange::AllGather { dim } => joined(&collective::all_gather(&x.contiguous()?, group)?, dim),
        Exchange::ReduceScatter { op, dim } => reduced(op, &stacked(x, dim)?, group, collective::reduce_scatter),
        Exchange::AllToAll { split, concat } => {
            let x = stacked(x, split)?;
            let rows = vec![x.dims()[0] / n; n];
            joined(&collective::all_to_all(&x, &rows, &rows, group)?, concat)
        }
    }
}

fn signed(dims: &Dims) -> Vec<i64> {
    dims.iter().map(|&n| n as i64).collect()
}

/// Call a collective that reduces.
fn reduced(
    op: ReduceOp,
    x: &Tensor,
    group: &Group,
    collective: impl Fn(&Tensor, Reduction, &Group) -> Result<Tensor>,
) -> Result<Tensor> {
    match tensors::reduction(op) {
        Some(by) => collective(x, by, group),
        None => {
            collective::check_mean(x)?;
            collective::mean_of_sum(&collective(x, Reduction::Sum, group)?, group)
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

/// The value of a sharded tensor.
#[derive(Clone)]
struct Value {
    member: Arc<Member>,
    placements: Vec<Placement>,
    /// The whole.
    meta: Meta,
    part: Part,
    /// Whether it is that of a view whose elements other ranks had.
    is_exchanged: bool,
    /// Whether callers have the part. They see what is written to the tensor.
    is_handed_out: bool,
}

impl Value {
    fn new(member: Arc<Member>, placements: Vec<Placement>, meta: Meta, part: Part) -> Value {
        Value { member, placements, meta, part, is_exchanged: false, is_handed_out: false }
    }

    fn spec(&self) -> Spec {
        Spec { mesh: self.member.mesh.clone(), placements: self.placements.clone(), meta: self.meta }
    }

    /// The whole, as the parts describe it.
    fn local_meta(&self) -> Meta {
        Meta { place: self.member.local.into(), ..self.meta }
    }

    fn local(&self) -> Result<Tensor> {
        match &self.part {
            Part::Local(x) => Ok(x.clone()),
            Part::Fill(..) if self.member.is_outside() => self.member.nothing(&self.meta),
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
            part if self.member.is_outside() => part.clone(),
            _ => Part::Local(self.member.redistributed(&self.local()?, &self.meta.dims, &self.placements, to)?),
        };
        Ok(Value { placements: to.to_vec(), part, is_handed_out: false, ..self.clone() })
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
static WITHOUT_RULE: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
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
    let without_rule = WITHOUT_RULE.lock().values().sum();
    Counts { calls: CALLS.load(Relaxed), without_rule, bytes: BYTES.load(Relaxed) }
}

/// Return the numbers of calls by the names of their ops that [`Counts::without_rule`] counts.
pub fn without_rule() -> BTreeMap<&'static str, u64> {
    WITHOUT_RULE.lock().clone()
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
    Rep::Sharded.handle(at as u64)
}

fn get(handle: u64) -> Value {
    let values = VALUES.lock();
    let entry = values.entries[Rep::id(handle) as usize].as_ref();
    entry.expect("a tensor holds the handle").1.clone()
}

/// Note that callers have the part of a value. `part` replaces it, if it was a fill.
fn hand_out(handle: u64, part: Option<Part>) {
    let mut values = VALUES.lock();
    if let Some((_, value)) = values.entries[Rep::id(handle) as usize].as_mut() {
        value.part = part.unwrap_or_else(|| value.part.clone());
        value.is_handed_out = true;
    }
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

/// The representation of sharded tensors.
struct Parts;

impl Parts {
    /// Run the ops that express `op`, which may have rules where `op` has none.
    fn expanded(&self, op: &Prim, given: &[Operand<'_>], x: &[Value], handles: &mut [u64]) -> Result<()> {
        let tensor = |(given, x): (&Operand<'_>, &Value)| match given {
            Operand::Value(handle) => {
                self.retain(*handle);
                Ok(Tensor::from_device_value(&x.meta, *handle))
            }
            Operand::Number { .. } => x.local(),
        };
        let x = given.iter().zip(x).map(tensor).collect::<Result<Vec<_>>>()?;
        let y = dispatch::expand_whole(op, &x.iter().collect::<Vec<_>>())?;
        for (handle, y) in handles.iter_mut().zip(&y) {
            *handle = y.device_value()?;
            self.retain(*handle);
        }
        Ok(())
    }
}

impl Representation for Parts {
    fn record(&self, op: &Prim, given: &[Operand<'_>], y: &[Meta], handles: &mut [u64]) -> Result<()> {
        let member = Member::of(y[0].place)?;
        let replicated = vec![Placement::Replicate; member.mesh.ndim()];
        let operand = |x: &Operand<'_>| -> Result<Value> {
            match x {
                Operand::Value(handle) => Ok(get(*handle)),
                Operand::Number { bits, meta, shared } => {
                    let number = backend::number(*bits, meta, *shared)?;
                    let (member, placements) = (member.clone(), replicated.clone());
                    Ok(Value::new(member, placements, **meta, Part::Local(number)))
                }
            }
        };
        let x = given.iter().map(operand).collect::<Result<Vec<_>>>()?;
        let new = |placements: &[Placement], meta: &Meta, part: Part, is_exchanged: bool| {
            add(Value { is_exchanged, ..Value::new(member.clone(), placements.to_vec(), *meta, part) })
        };
        if op.facts().is_fill
            && let [number] = &x[..]
            && number.spec().is_replicated()
        {
            handles[0] = new(&replicated, &y[0], Part::Fill(op.clone(), number.local()?), false);
            return Ok(());
        }
        if let Some(part) = of_fills(op, &x, y)? {
            handles[0] = new(&replicated, &y[0], part, false);
            return Ok(());
        }
        let ym: Vec<Meta> = y.iter().map(|y| Meta { place: member.local.into(), ..*y }).collect();
        let xm: Vec<Meta> = x.iter().map(Value::local_meta).collect();
        let now: Vec<Vec<Placement>> = x.iter().map(|x| x.placements.clone()).collect();
        let (mesh, axes) = (member.sizes(), op.axes(&xm, &ym));
        let plan = propagate(&axes, &xm, &ym, &mesh, &now);
        let _suspended = autocast::Suspended::new();
        if plan.lacks_rule && op.is_fused() {
            return self.expanded(op, given, &x, handles);
        }
        CALLS.fetch_add(1, Relaxed);
        if plan.lacks_rule {
            *WITHOUT_RULE.lock().entry(op.name()).or_default() += 1;
        }
        let is_exchanged = op.is_view() && (x[0].is_exchanged || plan.operands[0] != x[0].placements);
        if member.is_outside() {
            for (i, y) in y.iter().enumerate() {
                handles[i] = new(&plan.results[i], y, Part::Local(member.nothing(y)?), is_exchanged);
            }
            return Ok(());
        }
        let parts = no_grad(|| -> Result<Vec<Tensor>> {
            let local = |(x, to): (&Value, &Vec<Placement>)| x.redistributed(to)?.local();
            let x = match (given.first(), &x[..]) {
                (Some(Operand::Value(handle)), [x]) if op.is_view() => {
                    vec![viewed(*handle, x, &plan.operands[0])?.local()?]
                }
                _ => x.iter().zip(&plan.operands).map(local).collect::<Result<Vec<_>>>()?,
            };
            plan.run(op, &x.iter().collect::<Vec<_>>(), &xm, &ym, &mesh, &member.coordinate)
        })?;
        for (i, part) in parts.into_iter().enumerate() {
            debug_assert_eq!(
                *part.dims(),
                crate::spec::local_dims(&y[i].dims, &plan.results[i], &mesh, &member.coordinate)
            );
            handles[i] = new(&plan.results[i], &y[i], Part::Local(part), is_exchanged);
        }
        Ok(())
    }

    /// Keep the placements, except those of a fill that is not sharded, which are not known, and of a pending
    /// reduction.
    fn overwrite(&self, old: u64, new: u64, is_update: bool) -> Result<u64> {
        let (before, value) = (get(old), get(new));
        if let Some(kept) = written_to_part(&before, &value, is_update)? {
            return Ok(add(kept));
        }
        if let (Part::Local(own), Part::Local(written)) = (&before.part, &value.part)
            && before.placements == value.placements
            && own.place().is_tpu()
            && backend::of(own.place())?.has_checks()
        {
            let be = backend::of(own.place())?;
            let kept = be.overwrite(own.device_value()?, written.device_value()?, is_update)?;
            let part = Part::Local(Tensor::from_device_value(written.meta(), kept));
            return Ok(add(Value { part, is_exchanged: before.is_exchanged, ..value }));
        }
        if keeps_placements(&before) && before.placements != value.placements {
            let kept = no_grad(|| value.redistributed(&before.placements))?;
            return Ok(add(Value { is_exchanged: before.is_exchanged, ..kept }));
        }
        if before.is_exchanged != value.is_exchanged {
            return Ok(add(Value { is_exchanged: before.is_exchanged, ..value }));
        }
        self.retain(new);
        Ok(new)
    }

    fn mixed(&self, _: Place, _: Place) -> Error {
        Error::runtime(
            "got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling \
             distributed operators!",
        )
    }

    /// Replicate a number. As in PyTorch, it need not be made a sharded tensor by the caller.
    fn adopt(&self, x: &Tensor, place: Place) -> Result<Option<Tensor>> {
        if x.numel() != 1 {
            return Ok(None);
        }
        if x.dims().len() == 1 {
            warning::warn(
                "Found a non-scalar tensor with numel=1 and ndim!=0, we are implicitly creating a replicated DTensor \
                 for it. However, please consider changing it to a scalar tensor or explicitly create a DTensor under \
                 distributed environment.",
            )?;
        }
        let member = Member::of(place)?;
        from_local(&member, x, &vec![Placement::Replicate; member.mesh.ndim()], x.dims(), None).map(Some)
    }

    /// The collectives of a view must run at the same call on all processes.
    fn computes_views_at_once(&self) -> bool {
        true
    }

    fn placed_like(&self, x: u64, y: u64) -> Result<u64> {
        let (like, value) = (get(x), get(y));
        let place = |(of, now): (&Placement, &Placement)| if of.shard().is_some() { *of } else { *now };
        let to: Vec<Placement> = like.placements.iter().zip(&value.placements).map(place).collect();
        if to == value.placements {
            self.retain(y);
            return Ok(y);
        }
        Ok(add(no_grad(|| value.redistributed(&to))?))
    }

    fn is_exchanged(&self, handle: u64) -> bool {
        get(handle).is_exchanged
    }

    fn takes_apart(&self, begins: bool) {
        let ended = TAKEN_APART.replace(begins.then(Vec::new));
        drop(ended);
    }

    fn moved(&self, place: Place, device: Device) -> Result<Place> {
        Ok(Member::of(place)?.on(device)?.place)
    }

    fn retain(&self, handle: u64) {
        let mut values = VALUES.lock();
        let entry = values.entries[Rep::id(handle) as usize].as_mut();
        entry.expect("a tensor holds the handle").0 += 1;
    }

    fn release(&self, handle: u64) {
        let at = Rep::id(handle) as usize;
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
        if value.member.is_outside() {
            return Err(Error::runtime(format!(
                "this rank is not in the mesh {}, so it has no elements",
                value.member.mesh
            )));
        }
        let whole = no_grad(|| value.redistributed(&vec![Placement::Replicate; value.placements.len()])?.local())?;
        out.copy_from_slice(&whole.to_bytes()?);
        Ok(())
    }

    fn upload(&self, meta: &Meta, bytes: &[u8]) -> Result<u64> {
        let member = Member::of(meta.place)?;
        let local = Tensor::from_bytes(bytes, &meta.dims, meta.dtype)?.to_device(member.local)?;
        let placements = vec![Placement::Replicate; member.mesh.ndim()];
        Ok(add(Value::new(member, placements, *meta, Part::Local(local))))
    }

    /// Let the device of the parts check the value, which all ranks have then.
    fn defer_check(&self, handle: u64, error: DeferredError) -> Result<bool> {
        let value = get(handle);
        if value.member.is_outside() {
            return Ok(false);
        }
        let whole = no_grad(|| value.redistributed(&vec![Placement::Replicate; value.placements.len()])?.local())?;
        if whole.place().has_handle() {
            return backend::of(whole.place())?.defer_check(whole.device_value()?, error);
        }
        match whole.to_vec::<i64>()?[0] {
            backend::ALL_WELL => Ok(false),
            wrong => Err(error(wrong)),
        }
    }
}

/// Whether a tensor with this value keeps its placements when it is written.
fn keeps_placements(before: &Value) -> bool {
    let is_known = matches!(before.part, Part::Local(_)) || before.placements.iter().any(|p| p.shard().is_some());
    is_known && before.placements.iter().all(|p| p.partial().is_none())
}

/// Write `value` into the part of the value `before`, if callers have that part, and return the value with it. They see
/// the new elements, at the same address. `None` if the part cannot hold them.
fn written_to_part(before: &Value, value: &Value, is_update: bool) -> Result<Option<Value>> {
    let Part::Local(own) = &before.part else { return Ok(None) };
    if !before.is_handed_out || !keeps_placements(before) || before.member.is_outside() {
        return Ok(None);
    }
    no_grad(|| {
        let value = value.redistributed(&before.placements)?;
        let written = value.local()?;
        if own.meta() != written.meta() || !own.is_dense() || own.is_view() || own.is_inference() {
            return Ok(None);
        }
        let is_same = own.shares_storage(&written)
            && own.storage_offset() == written.storage_offset()
            && own.strides() == written.strides();
        if !is_same {
            let write = || own.copy_(&written).map(drop);
            if is_update { backend::updating(write)? } else { write()? }
        }
        let (part, is_exchanged) = (Part::Local(own.clone()), before.is_exchanged);
        Ok(Some(Value { part, is_exchanged, is_handed_out: true, ..value }))
    })
}

thread_local! {
    /// While views that cover a tensor are made: operands that were redistributed for them, with the handles before.
    static TAKEN_APART: RefCell<Option<Vec<(u64, Value)>>> = const { RefCell::new(None) };
}

/// Return the operand of a view with other placements. `handle` is that of the operand.
fn viewed(handle: u64, x: &Value, to: &[Placement]) -> Result<Value> {
    if to == x.placements {
        return Ok(x.clone());
    }
    let is_same = |(before, value): &&(u64, Value)| *before == handle && value.placements == to;
    let found = TAKEN_APART.with_borrow(|t| t.as_ref()?.iter().find(is_same).map(|(_, value)| value.clone()));
    if let Some(value) = found {
        return Ok(value);
    }
    let value = x.redistributed(to)?;
    TAKEN_APART.with_borrow_mut(|t| t.as_mut().map(|t| t.push((handle, value.clone()))));
    Ok(value)
}

/// Return the membership, the placements and the description of a sharded tensor. This runs no op and no collective, so
/// one process alone may ask.
fn described(x: &Tensor) -> Result<(Arc<Member>, Vec<Placement>, Meta)> {
    let Some((base, ops)) = x.pending_views() else {
        let value = value_of(x)?;
        return Ok((value.member, value.placements, value.meta));
    };
    let (member, mut placements, mut meta) = described(base)?;
    for op in ops {
        let y = op.view_meta(&meta)?;
        let plan = planned(&member, op, &[meta], &[y], &[placements]);
        (placements, meta) = (plan.results.into_iter().next().unwrap_or_default(), y);
    }
    Ok((member, placements, meta))
}

/// Return how a call on tensors of the mesh is divided.
fn planned(member: &Member, op: &Prim, x: &[Meta], y: &[Meta], now: &[Vec<Placement>]) -> Plan {
    let local = |m: &Meta| Meta { place: member.local.into(), ..*m };
    let (x, y): (Vec<Meta>, Vec<Meta>) = (x.iter().map(local).collect(), y.iter().map(local).collect());
    propagate(&op.axes(&x, &y), &x, &y, &member.sizes(), now)
}

fn value_of(x: &Tensor) -> Result<Value> {
    if x.place().rep != Rep::Sharded {
        return Err(Error::runtime("the tensor is not sharded"));
    }
    Ok(get(x.device_value()?))
}

/// Return the description of a sharded tensor; `None` for another tensor.
///
/// # Errors
/// `Runtime` if its mesh is gone.
pub fn spec(x: &Tensor) -> Result<Option<Spec>> {
    if x.place().rep != Rep::Sharded {
        return Ok(None);
    }
    let (member, placements, meta) = described(x)?;
    Ok(Some(Spec { mesh: member.mesh.clone(), placements, meta }))
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

/// Return the sharded tensor of sizes `dims` whose part is `local`. It is differentiable. `gradient` has the placements
/// whose part is the gradient of `local`; `None` are `placements`, where a pending reduction is replicated.
///
/// # Errors
/// `Value` if the part has other sizes than the placements say, or is on another device.
pub fn from_local(
    member: &Arc<Member>,
    local: &Tensor,
    placements: &[Placement],
    dims: &[usize],
    gradient: Option<&[Placement]>,
) -> Result<Tensor> {
    from_local_with(member, local, placements, dims, &[], gradient)
}

/// [`from_local`] with the strides of the whole tensor. Those that leave gaps are ignored. Without any, it is row
/// major.
///
/// # Errors
/// As [`from_local`].
pub fn from_local_with(
    member: &Arc<Member>,
    local: &Tensor,
    placements: &[Placement],
    dims: &[usize],
    strides: &[usize],
    gradient: Option<&[Placement]>,
) -> Result<Tensor> {
    let meta = Meta { dims: Dims::try_new(dims)?, dtype: local.dtype(), place: member.place };
    let spec = Spec::new(member.mesh.clone(), placements.to_vec(), meta)?;
    let own = if member.is_outside() { *local.dims() } else { spec.local_dims(&member.coordinate) };
    if *local.dims() != own {
        return Err(Error::value(format!(
            "a part of sizes {} is not that of a tensor of sizes {} with placements {}, which has sizes {own}",
            local.dims(),
            meta.dims,
            text(placements)
        )));
    }
    if local.place() != member.local.into() {
        return Err(Error::value(format!(
            "a part on {} is not on the device of the mesh, {}",
            local.place(),
            member.local
        )));
    }
    let part = Part::Local(if member.is_outside() { member.nothing(&meta)? } else { local.detach() });
    let value = add(Value::new(member.clone(), placements.to_vec(), meta, part));
    let y = match strides {
        [] => Tensor::from_device_value(&meta, value),
        strides => Tensor::from_device_value_with(&meta, strides, value),
    };
    let placements = gradient.map_or_else(|| of_gradient(placements), <[Placement]>::to_vec);
    with_history(y, local, FromLocal { placements })
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
/// its gradient; `None` are those of `x`, where a pending reduction is replicated. Without recording, it is the same
/// tensor at each call.
///
/// # Errors
/// `Runtime` if the tensor is not sharded.
pub fn to_local(x: &Tensor, gradient: Option<&[Placement]>) -> Result<Tensor> {
    let mut value = value_of(x)?;
    if matches!(value.part, Part::Fill(..)) {
        // The caller may write to the part.
        value.part = Part::Local(no_grad(|| value.local())?);
    }
    if !value.is_handed_out {
        let handle = x.device_value()?;
        let mut owner = x;
        while let Some(view) = owner.view_info() {
            owner = &view.base;
        }
        let whole = owner.device_value()?;
        if let Part::Local(part) = &value.part
            && part.is_view()
            && (whole == handle || value.is_exchanged)
        {
            // It lies in the memory of another tensor, which must not see what is written here.
            value.part = Part::Local(no_grad(|| part.copy())?);
        }
        hand_out(handle, Some(value.part.clone()));
        // The part of a view may lie in the part of its base.
        hand_out(whole, None);
    }
    if !state::grad_enabled() && gradient.is_none() {
        return value.local();
    }
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
        let whole = |g: &Tensor| from_local(&self.member, &g.contiguous()?, &self.placements, &self.dims, None);
        Ok([g[0].as_ref().map(whole).transpose()?].into_iter().collect())
    }
}

/// Return the tensor with other placements. The gradient gets the placements of `x`.
///
/// # Errors
/// `Runtime` if the tensor is not sharded or lacks a dimension, the errors of collectives.
pub fn redistribute(x: &Tensor, placements: &[Placement]) -> Result<Tensor> {
    let value = value_of(x)?;
    Spec::new(value.member.mesh.clone(), placements.to_vec(), value.meta)?;
    let redistributed = add(no_grad(|| value.redistributed(placements))?);
    let y = Tensor::from_device_value_with(&value.meta, x.strides(), redistributed);
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
/// `Runtime` if the tensor is not sharded, the errors of collectives.
pub fn full_tensor(x: &Tensor) -> Result<Tensor> {
    let member = Member::of(x.place())?;
    to_local(&redistribute(x, &vec![Placement::Replicate; member.mesh.ndim()])?, None)
}

/// Return a sharded tensor with its parts on another device. It is differentiable.
///
/// # Errors
/// `Runtime` if the tensor is not sharded, the errors of a copy.
pub fn to_device(x: &Tensor, local: Device) -> Result<Tensor> {
    let value = value_of(x)?;
    let part = to_local(x, None)?.to_device(local)?;
    from_local(&value.member.on(local)?, &part, &value.placements, &value.meta.dims, None)
}

/// Shard a tensor that is whole on each process. The elements are those of the first process. It is differentiable.
///
/// # Errors
/// `Runtime` if a placement is a pending reduction or does not fit, the errors of collectives.
pub fn distribute(member: &Arc<Member>, x: &Tensor, placements: &[Placement]) -> Result<Tensor> {
    let source = x.to_device(member.local)?;
    let same = no_grad(|| -> Result<Tensor> {
        let mut same = source.contiguous()?;
        for group in &member.groups {
            same = collective::broadcast(&same, 0, group)?;
        }
        Ok(same)
    })?;
    let y = from_local(member, &same, &vec![Placement::Replicate; member.mesh.ndim()], x.dims(), None)?;
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
