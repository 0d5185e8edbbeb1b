//! Process groups: collectives and messages on tensors of device `cpu`.
//!
//! [`PyProcessGroup`] is the engine below `torch.distributed.ProcessGroup`, a class of Python. Lists of tensors count
//! as one row of elements. A call that is not asynchronous runs on the caller's thread and returns `None`.

use super::memory::{Memory, check};
use super::store::{PyStore, rust_store};
use super::tensors::PyTensorGroup;
use super::work::PyWork;
use crate::enter::{self, OrRaise};
use crate::{sites, tensor_type};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use torchtpu_distributed::transport::mpi::Mpi;
use torchtpu_distributed::transport::tcp::Tcp;
use torchtpu_distributed::transport::{Hosts, Network};
use torchtpu_distributed::{Memory as _, Op, Options, ProcessGroup, ReduceOp, Request};
use torchtpu_tensor::{DType, Error, Result, Tensor, warning};

/// A rank that leaves waits for its peers for so long without a warning.
const UNREMARKABLE: Duration = Duration::from_secs(10);

/// How a collective is called: whether it is asynchronous, its limit, and what its work returns.
type Call<'py> = (bool, Option<Duration>, Bound<'py, PyAny>);

/// The engine of a process group: the collectives that ranks run on tensors of device ``cpu``.
///
/// ``tensors``, ``inputs`` and ``outputs`` are lists of tensors of one dtype. ``call`` is a tuple of whether the
/// collective is asynchronous, its timeout or ``None`` for the group's, and what `Work.result` returns. Asynchronous
/// collectives return a `Work`, the others ``None``.
///
/// Args:
///     store: the store in which the ranks meet.
///     rank: this rank.
///     size: the number of ranks.
///     name: the name of the group, unique in the store.
///     timeout: the limit of each collective.
///     ranks: the global rank of each rank.
///     address: the address of this host that other hosts connect to. ``None`` takes the one on the way to ``towards``.
///     towards: host and port of the store.
///     is_planned: whether only this rank exists, and the others count as doing what it does.
#[pyclass(frozen, name = "_ProcessGroup", module = "torch._C")]
pub(super) struct PyProcessGroup {
    group: Mutex<Option<ProcessGroup>>,
}

/// Tensors of a call.
struct Tensors(Vec<Tensor>);

impl<'py> FromPyObject<'_, 'py> for Tensors {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Tensors> {
        // As in PyTorch, saved tensors do not notice the writes of collectives.
        let one = |o: &Bound<'py, PyAny>| match tensor_type::extract(o) {
            Some(t) => Ok(t.data()),
            None => Err(PyTypeError::new_err(format!("expected a Tensor, not {}", o.get_type().name()?))),
        };
        Ok(Tensors(given.cast::<PyList>()?.iter().map(|o| one(&o)).collect::<PyResult<_>>()?))
    }
}

impl Tensors {
    /// Return the dtype and the shape of a row of elements, that of the only tensor or `[n]`.
    fn row(&self) -> Option<(DType, Vec<usize>)> {
        match &self.0[..] {
            [] => None,
            [only] => Some((only.dtype(), only.dims().to_vec())),
            [first, ..] => Some((first.dtype(), vec![self.0.iter().map(Tensor::numel).sum()])),
        }
    }

    fn rows(&self) -> Vec<usize> {
        self.0.iter().map(Tensor::numel).collect()
    }
}

/// Which tensors a collective works on.
enum Buffers {
    /// The output is also the input.
    Shared(Tensors),
    /// The output is also the input, and nobody asks for it.
    Consumed(Tensors),
    Apart(Tensors, Tensors),
    Nothing,
}

/// Memory of input and output.
type Memories = (Option<Memory>, Memory);

impl Buffers {
    fn check(&self, op: &str, dtype: DType) -> Result<()> {
        let each = |tensors: &Tensors, is_output| {
            tensors.0.iter().try_for_each(|t| {
                if t.dtype() != dtype {
                    let (a, b) = (dtype.scalar_type(), t.dtype().scalar_type());
                    return Err(Error::value(format!("{op}: tensors of dtypes {a} and {b}, must have one dtype")));
                }
                check(op, t, is_output)
            })
        };
        match self {
            Buffers::Shared(tensors) => each(tensors, true),
            Buffers::Consumed(tensors) => each(tensors, false),
            Buffers::Apart(inputs, outputs) => each(inputs, false).and_then(|()| each(outputs, true)),
            Buffers::Nothing => Ok(()),
        }
    }

    fn memories(self) -> Result<Memories> {
        match self {
            Buffers::Shared(tensors) => Ok((None, Memory::both(tensors.0)?)),
            Buffers::Consumed(tensors) => Ok((None, Memory::scratch(tensors.0)?)),
            Buffers::Apart(inputs, outputs) => {
                let input = Memory::input(inputs.0, &outputs.0)?;
                Ok((Some(input), Memory::output(outputs.0)))
            }
            Buffers::Nothing => Ok((None, Memory::output(Vec::new()))),
        }
    }

    /// Count the writes that follow.
    fn bump_versions(&self) {
        if let Buffers::Shared(written) | Buffers::Apart(_, written) = self {
            written.0.iter().for_each(Tensor::bump_version);
        }
    }
}

fn reduction(op: usize) -> PyResult<ReduceOp> {
    ReduceOp::ALL.get(op).copied().ok_or_else(|| PyValueError::new_err(format!("reduction {op}, must be less than 8")))
}

/// Call `wait`, which returns the ranks that it still waits for after a time, until there are none or the timeout of
/// the group is over.
///
/// # Errors
/// Those of `wait`, and that of a warning.
fn patiently(group: &ProcessGroup, wait: impl Fn(&ProcessGroup, Duration) -> Result<Vec<usize>>) -> Result<()> {
    let first = UNREMARKABLE.min(group.timeout());
    let awaited = wait(group, first)?;
    if awaited.is_empty() {
        return Ok(());
    }
    let (rank, name) = (group.rank(), group.name());
    let text = format!("Rank {rank} leaves process group {name}. It waits for ranks {awaited:?}.");
    // A warning may be an error. The wait is not lost by it.
    let warned = warning::warn(&text);
    wait(group, group.timeout() - first)?;
    warned
}

impl PyProcessGroup {
    /// Return the group, unless it was closed.
    pub(super) fn group(&self) -> PyResult<ProcessGroup> {
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner).clone();
        group.ok_or_else(|| PyValueError::new_err("Invalid process group specified or has been destroyed."))
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        op: Op,
        row: Option<(DType, Vec<usize>)>,
        buffers: Buffers,
        call: Call<'py>,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let group = self.group()?;
        let (is_async, timeout, result) = call;
        let (dtype, shape) = row.unwrap_or((DType::U8, Vec::new()));
        buffers.check(op.name(), dtype).or_raise()?;
        buffers.bump_versions();
        let request = Request { op, dtype, shape, line: sites::user_line(py).map(Arc::from), timeout };
        if is_async {
            let start = || {
                let (input, output) = buffers.memories()?;
                group.start(request, input.map(|i| Box::new(i) as _), Box::new(output))
            };
            let work = py.detach(start).or_raise()?;
            return PyWork::make(py, work, result.unbind()).map(Some);
        }
        let run = || {
            let (input, mut output) = buffers.memories()?;
            group.run(&request, input.as_ref().map_or(&[], |i| i.bytes()), output.bytes_mut())?;
            output.complete()
        };
        enter::without_gil(run).or_raise()?;
        Ok(None)
    }

    /// Return the one tensor of a message, on device `cpu`.
    fn message<'a>(&self, op: &str, tensors: &'a Tensors, is_output: bool) -> PyResult<&'a Tensor> {
        let [tensor] = &tensors.0[..] else {
            return Err(PyValueError::new_err(format!("{op}: {} tensors, must be one", tensors.0.len())));
        };
        check(op, tensor, is_output).or_raise()?;
        Ok(tensor)
    }
}

#[pymethods]
impl PyProcessGroup {
    #[new]
    #[pyo3(signature = (
        store, rank, size, name, timeout, ranks, address=None, towards=None, uses_mpi=false, is_planned=false
    ))]
    fn new(
        store: &Bound<'_, PyStore>,
        rank: usize,
        size: usize,
        name: String,
        timeout: Duration,
        ranks: Vec<usize>,
        address: Option<IpAddr>,
        towards: Option<String>,
        uses_mpi: bool,
        is_planned: bool,
    ) -> PyResult<PyProcessGroup> {
        let options = Options { name, timeout, ranks };
        if is_planned {
            let group = ProcessGroup::planned(rank, size, options).or_raise()?;
            return Ok(PyProcessGroup { group: Mutex::new(Some(group)) });
        }
        let kept = rust_store(store);
        let make = || {
            let network: Arc<dyn Network> = if uses_mpi {
                Arc::new(Mpi::started().ok_or_else(|| Error::runtime("MPI is not started"))?)
            } else {
                let towards = || Tcp::towards(towards.as_deref().unwrap_or(""));
                Arc::new(Hosts { tcp: address.map_or_else(towards, |address| Tcp { address }) })
            };
            ProcessGroup::new(kept, network, rank, size, options)
        };
        let group = store.py().detach(make).or_raise()?;
        Ok(PyProcessGroup { group: Mutex::new(Some(group)) })
    }

    /// The limit of each collective, a ``datetime.timedelta``.
    #[getter]
    fn timeout(&self) -> PyResult<Duration> {
        Ok(self.group()?.timeout())
    }

    /// Whether only this rank exists.
    #[getter]
    fn is_planned(&self) -> PyResult<bool> {
        Ok(self.group()?.is_planned())
    }

    /// Set the limit of later collectives.
    fn set_timeout(&self, timeout: Duration) -> PyResult<()> {
        self.group()?.set_timeout(timeout);
        Ok(())
    }

    /// Return the group for collectives that return new tensors. ``partition`` has the global ranks of all groups that
    /// were made together with this one. The default is this group alone. With ``is_on_host``, collectives of tensors
    /// on ``tpu`` run on the host too, as ranks that are threads of one process need.
    #[pyo3(signature = (partition=None, *, is_on_host=false))]
    fn tensors(&self, py: Python<'_>, partition: Option<Vec<Vec<usize>>>, is_on_host: bool) -> PyResult<PyTensorGroup> {
        let group = self.group()?;
        let partition = partition.unwrap_or_else(|| vec![group.ranks().to_vec()]);
        PyTensorGroup::make(py, &group, partition, is_on_host)
    }

    /// Return the number of collectives called so far.
    fn sequence(&self) -> PyResult<u64> {
        Ok(self.group()?.sequence())
    }

    /// Leave the group. Wait, for at most its timeout, until the collectives in flight have ended and other ranks have
    /// taken the messages of this one. A wait that takes long gives a warning. Later calls raise ``ValueError``.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner).take();
        group.map_or(Ok(()), |group| py.detach(|| patiently(&group, ProcessGroup::leave))).or_raise()
    }

    /// If no collective is in flight, or when they have ended, tell the other ranks that this one leaves. ``wait`` says
    /// whether to wait for them, for at most the timeout of the group. Only `close` may follow. A process that leaves
    /// several groups does this for all of them first.
    fn finish(&self, py: Python<'_>, wait: bool) -> PyResult<()> {
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(group) = group else { return Ok(()) };
        let finish = || match wait {
            true => patiently(&group, ProcessGroup::finish),
            false => group.finish(Duration::ZERO).map(|_| ()),
        };
        py.detach(finish).or_raise()
    }

    /// Break the group: what waits ends with an error that says ``reason``, on all ranks.
    fn abort(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        let group = self.group()?;
        py.detach(|| group.abort(reason));
        Ok(())
    }

    /// Combine ``tensors`` of all ranks, on all ranks. ``op`` is the number of a `ReduceOp`.
    fn all_reduce<'py>(
        &self,
        py: Python<'py>,
        tensors: Tensors,
        op: usize,
        call: Call<'py>,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let row = tensors.row();
        self.run(py, Op::AllReduce(reduction(op)?), row, Buffers::Shared(tensors), call)
    }

    /// Copy ``tensors`` of rank ``root`` to all ranks.
    fn broadcast<'py>(
        &self,
        py: Python<'py>,
        tensors: Tensors,
        root: usize,
        call: Call<'py>,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let row = tensors.row();
        self.run(py, Op::Broadcast { root }, row, Buffers::Shared(tensors), call)
    }

    /// Combine ``tensors`` of all ranks, on rank ``root``. The other ranks keep theirs.
    fn reduce<'py>(
        &self,
        py: Python<'py>,
        tensors: Tensors,
        op: usize,
        root: usize,
        call: Call<'py>,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let row = tensors.row();
        let is_root = self.group()?.rank() == root;
        let buffers = if is_root { Buffers::Shared(tensors) } else { Buffers::Consumed(tensors) };
        self.run(py, Op::Reduce(reduction(op)?, root), row, buffers, call)
    }

    /// Gather ``inputs`` of all ranks in ``outputs``, on all ranks.
    fn all_gather<'py>(
        &self,
        py: Python<'py>,
        outputs: Tensors,
        inputs: Tensors,
        call: Call<'py>,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let row = inputs.row();
        self.run(py, Op::AllGather, row, Buffers::Apart(inputs, outputs), call)
    }

    /// Gather ``inputs`` of all ranks in ``outputs``, on rank ``root``. ``outputs`` is empty on the other ranks.
    fn gather<'py>(
        &self,
        py: Python<'py>,
        outputs: Tensors,
        inputs: Tensors,
        root: usize,
        call: Call<'py>,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let row = inputs.row();
        self.run(py, Op::Gather { root }, row, Buffers::Apart(inputs, outputs), call)
    }

    /// Hand each rank its part of ``inputs`` of rank ``root``. ``inputs`` is empty on the other ranks.
    fn scatter<'py>(
        &self,
        py: Python<'py>,
        outputs: Tensors,
        inputs: Tensors,
        root: usize,
        call: Call<'py>,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let row = outputs.row();
        self.run(py, Op::Scatter { root }, row, Buffers::Apart(inputs, outputs), call)
    }

    /// Combine ``inputs`` of all ranks, and hand each rank its part.
    fn reduce_scatter<'py>(
        &self,
        py: Python<'py>,
        outputs: Tensors,
        inputs: Tensors,
        op: usize,
        call: Call<'py>,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let row = outputs.row();
        self.run(py, Op::ReduceScatter(reduction(op)?), row, Buffers::Apart(inputs, outputs), call)
    }

    /// Hand rank ``i`` the tensor ``inputs[i]``, and get ``outputs[i]`` from it.
    fn all_to_all<'py>(
        &self,
        py: Python<'py>,
        outputs: Tensors,
        inputs: Tensors,
        call: Call<'py>,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let (sent, received) = (inputs.rows(), outputs.rows());
        let first = inputs.0.iter().chain(&outputs.0).next();
        let row = first.map(|t| (t.dtype(), vec![sent.iter().sum()]));
        self.run(py, Op::AllToAll { sent, received }, row, Buffers::Apart(inputs, outputs), call)
    }

    /// Hand each rank rows of ``inputs``, and get rows of ``outputs`` from each. ``sent`` and ``received`` are numbers
    /// of rows. Both lists have one tensor.
    fn all_to_all_single<'py>(
        &self,
        py: Python<'py>,
        outputs: Tensors,
        inputs: Tensors,
        sent: Vec<usize>,
        received: Vec<usize>,
        call: Call<'py>,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let row = inputs.row();
        self.run(py, Op::AllToAll { sent, received }, row, Buffers::Apart(inputs, outputs), call)
    }

    /// Wait until all ranks are here.
    fn barrier<'py>(&self, py: Python<'py>, call: Call<'py>) -> PyResult<Option<Bound<'py, PyWork>>> {
        self.run(py, Op::Barrier, None, Buffers::Nothing, call)
    }

    /// Wait until all ranks are here, and fail if they say different texts.
    fn agree(&self, py: Python<'_>, text: String) -> PyResult<()> {
        let call = (false, None, py.None().into_bound(py));
        self.run(py, Op::Agree { text }, None, Buffers::Nothing, call).map(drop)
    }

    /// Wait until all ranks are here, and name those that are not. With ``wait_all``, rank 0 waits for all ranks before
    /// it fails.
    fn monitored_barrier(&self, py: Python<'_>, timeout: Duration, wait_all: bool) -> PyResult<()> {
        let group = self.group()?;
        py.detach(|| group.monitored_barrier(timeout, wait_all)).or_raise()
    }

    /// Send the tensor of a list of one to a rank.
    fn send<'py>(
        &self,
        py: Python<'py>,
        tensors: Tensors,
        to: usize,
        tag: u32,
        is_async: bool,
    ) -> PyResult<Option<Bound<'py, PyWork>>> {
        let group = self.group()?;
        let dtype = self.message("send", &tensors, false)?.dtype();
        let result = PyList::empty(py).into_any().unbind();
        let message = || Memory::input(tensors.0, &[]);
        if is_async {
            let start = || group.isend(to, tag, dtype, message()?.bytes().to_vec());
            return PyWork::make(py, py.detach(start).or_raise()?, result).map(Some);
        }
        py.detach(|| group.send(to, tag, dtype, message()?.bytes())).or_raise()?;
        Ok(None)
    }

    /// Receive the tensor of a list of one from a rank, or from any rank, and wait for it. Return the rank.
    fn recv(&self, py: Python<'_>, tensors: Tensors, source: Option<usize>, tag: u32) -> PyResult<usize> {
        let group = self.group()?;
        let dtype = self.message("recv", &tensors, true)?.dtype();
        tensors.0[0].bump_version();
        let receive = || {
            let mut memory = Memory::output(tensors.0);
            let found = group.recv(source, tag, dtype, memory.bytes_mut())?;
            memory.complete().map(|()| found)
        };
        py.detach(receive).or_raise()
    }

    /// Begin to receive the tensor of a list of one from a rank, or from any rank. ``result`` is what `Work.result`
    /// returns.
    fn irecv<'py>(
        &self,
        py: Python<'py>,
        tensors: Tensors,
        source: Option<usize>,
        tag: u32,
        result: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyWork>> {
        let group = self.group()?;
        let dtype = self.message("recv", &tensors, true)?.dtype();
        tensors.0[0].bump_version();
        let work = py.detach(|| group.irecv(source, tag, dtype, Box::new(Memory::output(tensors.0)))).or_raise()?;
        PyWork::make(py, work, result)
    }
}

impl Drop for PyProcessGroup {
    fn drop(&mut self) {
        let group = self.group.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(group) = group {
            // Without an interpreter there is no lock to release, and `group` is dropped here.
            Python::try_attach(|py| {
                if let Err(error) = py.detach(|| group.release()).or_raise() {
                    interrupt_later(py, error);
                }
            });
        }
    }
}

/// Let the main thread raise the interrupt that ended a wait in a place that cannot raise.
fn interrupt_later(py: Python<'_>, error: PyErr) {
    let interrupt = || py.import("_thread")?.call_method0("interrupt_main");
    if !error.is_instance_of::<PyKeyboardInterrupt>(py) || interrupt().is_err() {
        error.write_unraisable(py, None);
    }
}

/// Set whether ranks must call a collective with equal shapes, not only with equally many elements.
#[pyfunction]
fn _set_compares_shapes(compares: bool) {
    torchtpu_distributed::set_compares_shapes(compares);
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_set_compares_shapes, m)?)?;
    m.add_class::<PyProcessGroup>()
}
