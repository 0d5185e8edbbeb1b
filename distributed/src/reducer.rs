//! Data parallel training: gradients are averaged over the ranks of a group while backward goes on.
//!
//! Parameters are grouped in buckets. A hook on each parameter copies its gradient into the bucket. When a bucket is
//! full, its all-reduce starts on the group's thread. The hook of the last parameter waits for all buckets and writes
//! the means back. All ranks start buckets in the same order, which after the first step is the order in which rank 0
//! got its gradients.
//!
//! On device `tpu` each parameter is a bucket of its own, and its all-reduce is an op of the recorded program.

use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;
use crate::request::{Op, Request};
use crate::work::{Memory, Work};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use torchtpu_tensor::comm::Group;
use torchtpu_tensor::graph::Edge;
use torchtpu_tensor::hooks::HookHandle;
use torchtpu_tensor::ops::collective::{self, Reduction};
use torchtpu_tensor::{DType, Error, Place, Result, Scalar, Tensor, no_grad};

/// Gradients that are reduced together.
#[derive(Clone)]
pub struct Bucket {
    /// Number of the bucket. Buckets are reduced in the order of their numbers.
    pub index: usize,
    /// Whether this is the last bucket of the step.
    pub is_last: bool,
    /// The gradients, one after the other, `(n,)`.
    pub buffer: Tensor,
    /// The parameters, by their numbers.
    pub parameters: Vec<usize>,
}

/// A function that waits for a reduction and returns the reduced buffer.
pub type Pending = Box<dyn FnOnce() -> Result<Tensor> + Send>;

/// A function that begins to reduce a bucket. It must not call the reducer.
pub type CommHook = Arc<dyn Fn(&Bucket) -> Result<Pending> + Send + Sync>;

/// How a [`Reducer`] works.
#[derive(Clone)]
pub struct ReducerOptions {
    /// Size of the first bucket, in bytes. It is small so that the first reduction starts early.
    pub first_bucket_bytes: usize,
    /// Size of the other buckets, in bytes.
    pub bucket_bytes: usize,
    /// Whether a step may leave parameters without gradients.
    pub find_unused: bool,
    /// Whether all steps use the same parameters equally often. The first step then reduces after backward.
    pub is_static: bool,
    /// Whether gradients are views of the buckets, which saves a copy.
    pub grads_are_views: bool,
    /// Return the memory of a dense tensor on device `cpu`. The reduction reads and writes it.
    pub memory: fn(&Tensor) -> Result<Box<dyn Memory>>,
}

impl Default for ReducerOptions {
    fn default() -> ReducerOptions {
        ReducerOptions {
            first_bucket_bytes: 1 << 20,
            bucket_bytes: 25 << 20,
            find_unused: false,
            is_static: false,
            grads_are_views: false,
            memory: |x| Ok(Box::new(Copied { bytes: x.to_bytes()?, tensor: x.detach() })),
        }
    }
}

/// A copy of a tensor's elements, which is written back.
struct Copied {
    tensor: Tensor,
    bytes: Vec<u8>,
}

impl Memory for Copied {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn complete(&mut self) -> Result<()> {
        let reduced = Tensor::from_bytes(&self.bytes, self.tensor.dims(), self.tensor.dtype())?;
        no_grad(|| self.tensor.copy_(&reduced).map(drop))
    }
}

/// Averages the gradients of parameters over the ranks of a group. Dropping it removes its hooks.
pub struct Reducer(Arc<Shared>);

struct Shared {
    group: ProcessGroup,
    /// The group for tensors on device `tpu`.
    tensors: Option<Group>,
    parameters: Vec<Parameter>,
    options: ReducerOptions,
    state: Mutex<State>,
    hooks: Mutex<Vec<HookHandle>>,
}

struct Parameter {
    name: String,
    tensor: Tensor,
}

/// A bucket, and its part of the present step.
struct Slot {
    parameters: Vec<usize>,
    /// The gradients. `None` on device `tpu`, where the gradient of the only parameter is taken.
    buffer: Option<Tensor>,
    /// Parts of the buffer in the shapes of the parameters.
    views: Vec<Tensor>,
    /// Number of parameters whose gradients are not here yet.
    missing: usize,
}

/// How far the present step is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Hooks do nothing but note which parameters are used.
    Idle,
    /// A synchronised backward may begin.
    Armed,
    /// Gradients arrive.
    Running,
}

struct State {
    phase: Phase,
    buckets: Vec<Slot>,
    /// Bucket and place in it, for each parameter.
    places: Vec<(usize, usize)>,
    is_ready: Vec<bool>,
    /// Whether a parameter got a gradient since the last synchronised step.
    is_used: Vec<bool>,
    /// Parameters that this step does not use.
    unused: Vec<usize>,
    /// The next bucket to start.
    next: usize,
    pending: Vec<(Bucket, Pending)>,
    /// The parameters in the order of their gradients, until the buckets follow it.
    order: Option<Vec<usize>>,
    /// How often a step uses each parameter, once that is known and fixed.
    uses: Option<Vec<usize>>,
    left: Vec<usize>,
    comm_hook: Option<CommHook>,
    divisor: usize,
    line: Option<Arc<str>>,
    steps: u64,
}

/// Whether a tensor's gradient is reduced in the memory of the host, and not by an op of the recorded program.
fn is_on_host(x: &Tensor) -> bool {
    x.place().in_memory()
}

/// Divide parameters into buckets of one dtype and device each, in the given order.
fn fill(order: &[usize], parameters: &[Parameter], options: &ReducerOptions) -> Vec<Vec<usize>> {
    let mut closed: Vec<Vec<usize>> = Vec::new();
    let mut open: Vec<(DType, Place, usize, Vec<usize>)> = Vec::new();
    for &i in order {
        let x = &parameters[i].tensor;
        let at = open.iter().position(|b| b.0 == x.dtype() && b.1 == x.place()).unwrap_or_else(|| {
            open.push((x.dtype(), x.place(), 0, Vec::new()));
            open.len() - 1
        });
        let bucket = &mut open[at];
        bucket.2 += x.numel() * x.dtype().size_bytes();
        bucket.3.push(i);
        let limit = if closed.is_empty() { options.first_bucket_bytes } else { options.bucket_bytes };
        if !is_on_host(x) || bucket.2 >= limit {
            closed.push(open.remove(at).3);
        }
    }
    closed.extend(open.into_iter().map(|b| b.3));
    closed
}

fn slots(buckets: Vec<Vec<usize>>, parameters: &[Parameter]) -> Result<Vec<Slot>> {
    let slot = |members: Vec<usize>| {
        let first = &parameters[members[0]].tensor;
        let (mut buffer, mut views) = (None, Vec::new());
        if is_on_host(first) {
            let total = members.iter().map(|&i| parameters[i].tensor.numel()).sum();
            let made = Tensor::zeros(&[total], first.dtype(), first.place())?;
            views = parts(&made, &members, parameters)?;
            buffer = Some(made);
        }
        Ok(Slot { missing: members.len(), parameters: members, buffer, views })
    };
    no_grad(|| buckets.into_iter().map(slot).collect())
}

/// Return the parts of a bucket's buffer, in the shapes of its parameters.
fn parts(buffer: &Tensor, members: &[usize], parameters: &[Parameter]) -> Result<Vec<Tensor>> {
    let mut at = 0;
    let part = |&i: &usize| {
        let x = &parameters[i].tensor;
        let sizes: Vec<i64> = x.dims().iter().map(|&n| n as i64).collect();
        let part = buffer.narrow(0, at, x.numel() as i64)?.reshape(&sizes);
        at += x.numel() as i64;
        part
    };
    members.iter().map(part).collect()
}

impl State {
    /// Forget the step, and expect gradients in all buckets.
    fn reset(&mut self) {
        self.is_ready.fill(false);
        self.buckets.iter_mut().for_each(|b| b.missing = b.parameters.len());
        self.next = 0;
        self.pending.clear();
        self.left = self.uses.clone().unwrap_or_default();
    }

    fn set_buckets(&mut self, buckets: Vec<Slot>) {
        for (b, bucket) in buckets.iter().enumerate() {
            for (place, &i) in bucket.parameters.iter().enumerate() {
                self.places[i] = (b, place);
            }
        }
        self.buckets = buckets;
    }
}

impl Reducer {
    /// Put hooks on parameters. `tensors` is the same group for tensors on device `tpu`.
    ///
    /// # Errors
    /// `Runtime` if a parameter is no leaf that requires a gradient. `OutOfMemory`.
    pub fn new(
        group: &ProcessGroup,
        tensors: Option<Group>,
        parameters: Vec<(String, Tensor)>,
        options: ReducerOptions,
    ) -> Result<Reducer> {
        let parameters: Vec<Parameter> =
            parameters.into_iter().map(|(name, tensor)| Parameter { name, tensor }).collect();
        let n = parameters.len();
        let reversed: Vec<usize> = (0..n).rev().collect();
        let buckets = slots(fill(&reversed, &parameters, &options), &parameters)?;
        let follows = options.is_static || !options.find_unused;
        let mut state = State {
            phase: Phase::Idle,
            buckets: Vec::new(),
            places: vec![(0, 0); n],
            is_ready: vec![false; n],
            is_used: vec![false; n],
            unused: Vec::new(),
            next: 0,
            pending: Vec::new(),
            order: follows.then(Vec::new),
            uses: None,
            left: Vec::new(),
            comm_hook: None,
            divisor: group.size(),
            line: None,
            steps: 0,
        };
        state.set_buckets(buckets);
        let state = Mutex::new(state);
        let hooks = Mutex::default();
        let shared = Arc::new(Shared { group: group.clone(), tensors, parameters, options, state, hooks });
        for (i, parameter) in shared.parameters.iter().enumerate() {
            let weak = Arc::downgrade(&shared);
            let hook = move |_: &Tensor| weak.upgrade().map_or(Ok(()), |shared: Arc<Shared>| shared.arrived(i));
            shared.hooks.lock().push(parameter.tensor.register_post_accumulate_grad_hook(hook)?);
        }
        Ok(Reducer(shared))
    }

    /// Begin a step whose gradients are averaged, before the forward pass. `line` is reported with its collectives.
    ///
    /// # Errors
    /// `Runtime` if parameters of the step before got no gradient. `DistBackend` if another rank does not begin a step.
    pub fn begin(&self, line: Option<Arc<str>>) -> Result<()> {
        let shared = &self.0;
        let mut state = shared.state.lock();
        if state.phase == Phase::Running {
            return Err(shared.unfinished(&state));
        }
        state.line = line;
        let full = state.order.as_ref().is_some_and(|order| order.len() == shared.parameters.len());
        let order = if full { state.order.take() } else { None };
        let line = state.line.clone();
        drop(state);
        if let Some(order) = order {
            shared.reorder(order, line)?;
        }
        Ok(())
    }

    /// Expect the gradients of a backward pass. `outputs` are those of the forward pass, if parameters that they do not
    /// depend on count as unused.
    ///
    /// # Errors
    /// Fails if the history of a view cannot be regenerated.
    pub fn expect(&self, outputs: Option<&[Tensor]>) -> Result<()> {
        let shared = &self.0;
        let unused = match outputs {
            Some(outputs) => shared.unreached(outputs)?,
            None => Vec::new(),
        };
        let mut state = shared.state.lock();
        state.reset();
        state.unused = match &state.uses {
            Some(uses) => (0..uses.len()).filter(|&i| uses[i] == 0).collect(),
            None => unused,
        };
        state.phase = Phase::Armed;
        Ok(())
    }

    /// Begin a step of the other ranks, as a rank that has run out of data. [`Reducer::shadow`] goes on with it.
    ///
    /// # Errors
    /// As [`Reducer::begin`].
    pub fn begin_shadow(&self) -> Result<()> {
        let mut guard = self.0.state.lock();
        let state = &mut *guard;
        state.phase = Phase::Idle;
        // The other ranks know an order after the first step. This rank may lack gradients in its own.
        if let Some(order) = &mut state.order
            && state.steps > 0
        {
            let seen: HashSet<usize> = order.iter().copied().collect();
            order.extend((0..self.0.parameters.len()).filter(|i| !seen.contains(i)));
        }
        drop(guard);
        self.begin(None)
    }

    /// Take part in a step of the other ranks with zeros as gradients. The gradients of this rank stay as they are,
    /// unless they are views of the buckets.
    ///
    /// # Errors
    /// `DistBackend` if a rank is missing.
    pub fn shadow(&self) -> Result<()> {
        let shared = &self.0;
        let mut state = shared.state.lock();
        state.reset();
        for bucket in &mut state.buckets {
            bucket.missing = 0;
            if let Some(buffer) = &bucket.buffer {
                no_grad(|| clear(buffer))?;
            }
        }
        drop(state);
        shared.start_buckets(true)?;
        shared.complete(true)
    }

    /// Reduce buckets with `hook` instead of averaging them. `None` averages.
    pub fn set_comm_hook(&self, hook: Option<CommHook>) {
        let before = std::mem::replace(&mut self.0.state.lock().comm_hook, hook);
        drop(before);
    }

    /// Divide sums of gradients by `divisor` instead of by the number of ranks.
    pub fn set_divisor(&self, divisor: usize) {
        self.0.state.lock().divisor = divisor;
    }

    /// Return the parameters of each bucket, by their numbers.
    pub fn buckets(&self) -> Vec<Vec<usize>> {
        self.0.state.lock().buckets.iter().map(|b| b.parameters.clone()).collect()
    }

    /// Whether the buckets follow the order of the gradients of the first step.
    pub fn has_rebuilt_buckets(&self) -> bool {
        let shared = &self.0;
        (shared.options.is_static || !shared.options.find_unused) && shared.state.lock().order.is_none()
    }

    /// Return the number of steps whose gradients were averaged.
    pub fn steps(&self) -> u64 {
        self.0.state.lock().steps
    }

    /// Remove the hooks. The gradients are no longer averaged.
    pub fn remove_hooks(&self) {
        self.0.hooks.lock().drain(..).for_each(|hook| hook.remove());
    }
}

impl Drop for Reducer {
    fn drop(&mut self) {
        self.remove_hooks();
    }
}

impl Shared {
    /// Handle the gradient of a parameter, which was added to its `.grad`.
    fn arrived(self: &Arc<Self>, i: usize) -> Result<()> {
        let mut state = self.state.lock();
        state.is_used[i] = true;
        if state.phase == Phase::Idle {
            return Ok(());
        }
        let is_first = state.phase == Phase::Armed;
        state.phase = Phase::Running;
        if self.options.is_static && state.uses.is_none() {
            return self.count(state, i, is_first);
        }
        if is_first {
            for unused in std::mem::take(&mut state.unused) {
                self.mark(&mut state, unused)?;
            }
        }
        if let Some(left) = state.left.get_mut(i)
            && *left > 1
        {
            *left -= 1;
            return Ok(());
        }
        if state.is_ready[i] {
            return Err(self.twice(i));
        }
        if let Some(order) = &mut state.order {
            order.push(i);
        }
        self.mark(&mut state, i)?;
        drop(state);
        self.advance()
    }

    /// Count a use of a parameter in the first step of a static graph, which reduces after backward.
    fn count(self: &Arc<Self>, mut state: parking_lot::MutexGuard<'_, State>, i: usize, is_first: bool) -> Result<()> {
        if is_first {
            state.left = vec![0; self.parameters.len()];
        }
        state.left[i] += 1;
        if let Some(order) = &mut state.order {
            // The last use of a parameter is the one that later steps wait for.
            order.retain(|&other| other != i);
            order.push(i);
        }
        drop(state);
        if !is_first {
            return Ok(());
        }
        let weak = Arc::downgrade(self);
        torchtpu_autograd::at_end(move || Weak::upgrade(&weak).map_or(Ok(()), |shared| shared.end_of_first_pass()))
    }

    fn end_of_first_pass(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.uses = Some(std::mem::take(&mut state.left));
        (0..self.parameters.len()).try_for_each(|i| self.mark(&mut state, i))?;
        let missing: Vec<usize> = (0..self.parameters.len()).filter(|&i| !state.is_used[i]).collect();
        if let Some(order) = &mut state.order {
            order.extend(missing.iter().filter(|i| !order.contains(i)).copied().collect::<Vec<_>>());
        }
        drop(state);
        if self.start_buckets(false)? { self.complete(false) } else { Ok(()) }
    }

    /// Copy the gradient of a parameter into its bucket. A parameter without one gets zeros.
    fn mark(&self, state: &mut State, i: usize) -> Result<()> {
        state.is_ready[i] = true;
        let (b, place) = state.places[i];
        let bucket = &mut state.buckets[b];
        bucket.missing -= 1;
        let Some(view) = bucket.views.get(place) else { return Ok(()) };
        let parameter = &self.parameters[i].tensor;
        no_grad(|| match parameter.grad() {
            None => clear(view),
            Some(g) if g.shares_storage(view) => Ok(()),
            Some(g) => {
                view.copy_(&g)?;
                if self.options.grads_are_views { set_grad(parameter, view.detach()) } else { Ok(()) }
            }
        })
    }

    /// Start the buckets that are full. After the last one, write the means to the gradients when the outermost pass
    /// ends: until then, a parameter that is ready a second time is noticed.
    fn advance(self: &Arc<Self>) -> Result<()> {
        if !self.start_buckets(false)? {
            return Ok(());
        }
        let weak = Arc::downgrade(self);
        torchtpu_autograd::at_end(move || Weak::upgrade(&weak).map_or(Ok(()), |shared| shared.complete(false)))
    }

    /// Start the buckets that are full, in their order. Return whether all have started.
    fn start_buckets(&self, is_shadow: bool) -> Result<bool> {
        loop {
            let mut state = self.state.lock();
            let (index, total) = (state.next, state.buckets.len());
            let Some(slot) = state.buckets.get(index) else { return Ok(true) };
            if slot.missing > 0 {
                return Ok(false);
            }
            let parameters = slot.parameters.clone();
            let buffer = match &slot.buffer {
                Some(buffer) => buffer.detach(),
                None => no_grad(|| self.flat_gradient(parameters[0], is_shadow))?,
            };
            state.next += 1;
            let bucket = Bucket { index, is_last: index + 1 == total, buffer, parameters };
            let (hook, divisor, line) = (state.comm_hook.clone(), state.divisor, state.line.clone());
            // A hook may run the user's code, so hold no lock.
            drop(state);
            let pending = match hook {
                Some(hook) => hook(&bucket)?,
                None => self.average(&bucket, divisor, line)?,
            };
            self.state.lock().pending.push((bucket, pending));
        }
    }

    /// Return the gradient of a parameter on device `tpu` as one row.
    fn flat_gradient(&self, i: usize, is_shadow: bool) -> Result<Tensor> {
        let x = &self.parameters[i].tensor;
        match x.grad().filter(|_| !is_shadow) {
            Some(g) => g.detach().reshape(&[-1]),
            None => Tensor::zeros(&[x.numel()], x.dtype(), x.place()),
        }
    }

    /// Begin to average a bucket.
    fn average(&self, bucket: &Bucket, divisor: usize, line: Option<Arc<str>>) -> Result<Pending> {
        let buffer = bucket.buffer.clone();
        let is_mean = divisor == self.group.size();
        let scale = Scalar::Float(1.0 / divisor as f64);
        if !is_on_host(&buffer) {
            let group =
                self.tensors.as_ref().ok_or_else(|| Error::runtime("the reducer has no group for device tpu"))?;
            let reduced = no_grad(|| {
                crate::tensors::at_line(line, || {
                    if is_mean {
                        return collective::mean(&buffer, group);
                    }
                    collective::all_reduce(&buffer, Reduction::Sum, group)?.mul_scalar(scale)
                })
            })?;
            return Ok(Box::new(move || Ok(reduced)));
        }
        let op = if is_mean { ReduceOp::Avg } else { ReduceOp::Sum };
        let work = self.start(Op::AllReduce(op), &buffer, line)?;
        Ok(Box::new(move || {
            work.wait(None)?;
            if !is_mean {
                no_grad(|| buffer.copy_(&buffer.mul_scalar(scale)?).map(drop))?;
            }
            Ok(buffer)
        }))
    }

    fn start(&self, op: Op, buffer: &Tensor, line: Option<Arc<str>>) -> Result<Work> {
        let request = Request { line, ..Request::new(op, buffer.dtype(), buffer.dims()) };
        buffer.bump_version();
        self.group.start(request, None, (self.options.memory)(buffer)?)
    }

    /// Wait for all buckets, and write the reduced gradients.
    fn complete(&self, is_shadow: bool) -> Result<()> {
        let mut state = self.state.lock();
        state.phase = Phase::Idle;
        let pending = std::mem::take(&mut state.pending);
        let mut used: Vec<u8> = state.is_used.iter().map(|&u| u8::from(u && !is_shadow)).collect();
        let line = state.line.clone();
        drop(state);
        if self.options.find_unused && !self.options.is_static {
            let request = Request { line, ..Request::new(Op::AllReduce(ReduceOp::Max), DType::U8, &[used.len()]) };
            let bitmap = self.group.start(request, None, Box::new(used))?;
            bitmap.wait(None)?;
            used = bitmap.result().map(|memory| memory.bytes().to_vec()).unwrap_or_default();
        }
        for (bucket, pending) in pending {
            let reduced = pending()?;
            if !is_shadow {
                no_grad(|| self.write(&bucket, &reduced, &used))?;
            }
        }
        let mut state = self.state.lock();
        state.steps += 1;
        if !is_shadow {
            state.is_used.fill(false);
        }
        Ok(())
    }

    fn write(&self, bucket: &Bucket, reduced: &Tensor, used: &[u8]) -> Result<()> {
        let in_place = reduced.shares_storage(&bucket.buffer) && is_on_host(reduced);
        let as_views = self.options.grads_are_views && is_on_host(&bucket.buffer);
        let reduced = if as_views && !in_place {
            bucket.buffer.copy_(&reduced.reshape(&[-1])?)?;
            bucket.buffer.clone()
        } else {
            reduced.detach().reshape(&[-1])?
        };
        for (&i, part) in bucket.parameters.iter().zip(parts(&reduced, &bucket.parameters, &self.parameters)?) {
            // No rank has used the parameter, so its gradient stays as it is.
            if used[i] == 0 {
                continue;
            }
            let parameter = &self.parameters[i].tensor;
            match parameter.grad() {
                Some(g) if as_views && g.shares_storage(&part) => {}
                Some(g) if !as_views => {
                    g.detach().copy_(&part)?;
                }
                _ if as_views => set_grad(parameter, part)?,
                _ => set_grad(parameter, part.copy()?)?,
            }
        }
        Ok(())
    }

    /// Let the buckets follow the order of rank 0.
    fn reorder(&self, order: Vec<usize>, line: Option<Arc<str>>) -> Result<()> {
        let n = order.len();
        let mut bytes: Vec<u8> = order.iter().flat_map(|&i| (i as u64).to_le_bytes()).collect();
        let request = Request { line, ..Request::new(Op::Broadcast { root: 0 }, DType::I64, &[n]) };
        self.group.run(&request, &[], &mut bytes)?;
        let order: Vec<usize> = bytes.chunks_exact(8).map(number_of).collect();
        let mut all = order.clone();
        all.sort_unstable();
        if !all.into_iter().eq(0..n) {
            return Err(Error::runtime("the parameters of rank 0 are not those of this rank"));
        }
        let buckets = slots(fill(&order, &self.parameters, &self.options), &self.parameters)?;
        self.state.lock().set_buckets(buckets);
        Ok(())
    }

    /// Return the parameters that `outputs` do not depend on.
    fn unreached(&self, outputs: &[Tensor]) -> Result<Vec<usize>> {
        let (mut nodes, mut leaves) = (HashSet::new(), HashSet::new());
        let mut stack: Vec<Edge> = outputs.iter().map(Tensor::history_edge).collect::<Result<_>>()?;
        while let Some(edge) = stack.pop() {
            match edge {
                Edge::None => {}
                Edge::Leaf(leaf) => {
                    leaves.insert(leaf.address());
                }
                Edge::Node(node, _) => {
                    if nodes.insert(Arc::as_ptr(&node) as usize) {
                        stack.extend(node.edges().iter().cloned());
                    }
                }
            }
        }
        let is_reached = |x: &Tensor| -> Result<bool> {
            Ok(matches!(x.history_edge()?, Edge::Leaf(leaf) if leaves.contains(&leaf.address())))
        };
        let mut unreached = Vec::new();
        for (i, parameter) in self.parameters.iter().enumerate() {
            if !is_reached(&parameter.tensor)? {
                unreached.push(i);
            }
        }
        Ok(unreached)
    }

    fn unfinished(&self, state: &State) -> Error {
        let missing: Vec<usize> = (0..self.parameters.len()).filter(|&i| !state.is_ready[i]).collect();
        let list = |text: &dyn Fn(usize) -> String, with: &str| {
            missing.iter().map(|&i| text(i)).collect::<Vec<_>>().join(with)
        };
        let advice = if self.options.find_unused {
            "Since `find_unused_parameters=True` is enabled, this likely  means that not all `forward` outputs \
            participate in computing loss. You can fix this by making sure all `forward` function outputs participate \
            in calculating loss. "
        } else {
            "You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` \
            to `torch.nn.parallel.DistributedDataParallel`, and by \nmaking sure all `forward` function outputs \
            participate in calculating loss. "
        };
        Error::runtime(format!(
            "Expected to have finished reduction in the prior iteration before starting a new one. This error \
            indicates that your module has parameters that were not used in producing loss. {advice}\nIf you already \
            have done the above, then the distributed data parallel module wasn't able to locate the output tensors in \
            the return value of your module's `forward` function. Please include the loss function and the structure \
            of the return value of `forward` of your module when reporting this issue (e.g. list, dict, \
            iterable).\nParameters which did not receive grad for rank {rank}: {}\nParameter indices which did not \
            receive grad for rank {rank}: {}",
            list(&|i| self.parameters[i].name.clone(), ", "),
            list(&|i| i.to_string(), " "),
            rank = self.group.rank(),
        ))
    }

    fn twice(&self, i: usize) -> Error {
        Error::runtime(format!(
            "Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use \
            of a module parameter outside the `forward` function. Please make sure model parameters are not shared \
            across multiple concurrent forward-backward passes. or try to use _set_static_graph() as a workaround if \
            this module graph does not change during training loop.2) Reused parameters in multiple reentrant backward \
            passes. For example, if you use multiple `checkpoint` functions to wrap the same part of your model, it \
            would result in the same set of parameters been used by different reentrant backward passes multiple \
            times, and hence marking a variable ready multiple times. DDP does not support such use cases in default. \
            You can try to use _set_static_graph() as a workaround if your module graph does not change over \
            iterations.\nParameter at index {i} with name {} has been marked as ready twice. This means that multiple \
            autograd engine  hooks have fired for this particular parameter during this iteration.",
            self.parameters[i].name
        ))
    }
}

fn clear(x: &Tensor) -> Result<()> {
    x.copy_(&Tensor::zeros_like_meta(x.meta())?).map(drop)
}

fn number_of(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b))
}

/// Replace the gradient of a parameter, and forget the object that a binding has kept for the old one.
fn set_grad(parameter: &Tensor, g: Tensor) -> Result<()> {
    parameter.set_grad(Some(g))?;
    if let Some(torchtpu_tensor::GradRef::Leaf(leaf)) = parameter.grad_ref() {
        let object = leaf.hooks.lock().unwrap_or_else(|e| e.into_inner()).grad_object.take();
        drop(object);
    }
    Ok(())
}

/// Copy tensors of rank `from` to all ranks, such as parameters before the first step.
///
/// # Errors
/// `DistBackend` if a rank is missing, or has tensors of other shapes.
pub fn broadcast(group: &ProcessGroup, tensors: &[Tensor], from: usize) -> Result<()> {
    for tensor in tensors {
        let mut bytes = tensor.detach().to_bytes()?;
        group.run(&Request::new(Op::Broadcast { root: from }, tensor.dtype(), tensor.dims()), &[], &mut bytes)?;
        let value = Tensor::from_bytes(&bytes, tensor.dims(), tensor.dtype())?;
        no_grad(|| tensor.detach().copy_(&value).map(drop))?;
    }
    Ok(())
}
