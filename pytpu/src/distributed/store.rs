//! Key-value stores of `torch.distributed`, and the rendezvous of ranks at a store.
//!
//! A class of Python may inherit from `Store`: [`PythonStore`] lets Rust call its methods.

use crate::enter::{self, OrRaise};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString, PyTuple};
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use torchtpu_distributed::store::{
    self, DEFAULT_TIMEOUT, FileStore, HashStore, PrefixStore, Store, TcpOptions, TcpStore,
};
use torchtpu_distributed::{accelerator, rendezvous};
use torchtpu_tensor::Error;

/// A value from Python: bytes, or a text as UTF-8.
struct Value(Vec<u8>);

impl<'py> FromPyObject<'_, 'py> for Value {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Value> {
        if let Ok(text) = given.cast::<PyString>() {
            return Ok(Value(text.to_cow()?.as_bytes().to_vec()));
        }
        if let Ok(bytes) = given.cast::<PyBytes>() {
            return Ok(Value(bytes.as_bytes().to_vec()));
        }
        if let Ok(bytes) = given.cast::<PyByteArray>() {
            return Ok(Value(bytes.to_vec()));
        }
        Err(PyTypeError::new_err(format!("expected str or bytes, not {}", given.get_type().name()?)))
    }
}

/// A key from Python: a text, or bytes in UTF-8.
struct Key(String);

impl<'py> FromPyObject<'_, 'py> for Key {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Key> {
        let Value(bytes) = given.extract()?;
        String::from_utf8(bytes).map(Key).map_err(|_| PyValueError::new_err("a key must be text, or bytes in UTF-8"))
    }
}

fn borrowed(keys: &[Key]) -> Vec<&str> {
    keys.iter().map(|key| key.0.as_str()).collect()
}

/// Return the missing operation of a class that inherits from `Store`.
fn missing() -> PyErr {
    enter::exception(Error::not_implemented("Not implemented."))
}

/// A key-value store that processes share. Classes that inherit from it override ``set``, ``get``, ``add`` and whatever
/// else their users call.
#[pyclass(frozen, subclass, name = "Store", module = "torch.distributed")]
pub(super) struct PyStore {
    /// `None` in a class of Python's.
    store: Option<Arc<dyn Store>>,
    /// The timeout of a store of Python's.
    timeout: Mutex<Duration>,
}

impl PyStore {
    fn of(store: Arc<dyn Store>) -> PyStore {
        PyStore { store: Some(store), timeout: Mutex::new(DEFAULT_TIMEOUT) }
    }

    /// Run `f` without the GIL. A store of Python's has not overridden the method: it fails.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        f: impl Send + FnOnce(&dyn Store) -> torchtpu_tensor::Result<R>,
    ) -> PyResult<R> {
        let store = self.store.as_deref().ok_or_else(missing)?;
        py.detach(|| f(store)).or_raise()
    }
}

/// The same with the defaults of the trait for a store of Python's: they call the methods that it has overridden.
fn run_default<R: Send>(
    slf: &Bound<'_, PyStore>,
    f: impl Send + FnOnce(&dyn Store) -> torchtpu_tensor::Result<R>,
) -> PyResult<R> {
    let store = rust_store(slf);
    slf.py().detach(|| f(&*store)).or_raise()
}

/// The store behind a Python object.
pub(super) fn rust_store(store: &Bound<'_, PyStore>) -> Arc<dyn Store> {
    store.get().store.clone().unwrap_or_else(|| Arc::new(PythonStore(store.clone().unbind())))
}

#[pymethods]
impl PyStore {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyStore {
        PyStore { store: None, timeout: Mutex::new(DEFAULT_TIMEOUT) }
    }

    /// Return another object for the same store, to be used at the same time as this one.
    fn clone(&self) -> PyResult<()> {
        Err(missing())
    }

    /// Set ``key`` to ``value``, a ``str`` or ``bytes``.
    #[pyo3(signature = (key, value, /))]
    fn set(&self, py: Python<'_>, key: Key, value: Value) -> PyResult<()> {
        self.run(py, |store| store.set(&key.0, &value.0))
    }

    /// Set ``key`` to ``desired_value`` if its value is ``expected_value``, or if it is absent and ``expected_value``
    /// is empty. Return the value afterwards, or ``expected_value`` if the key is absent.
    #[pyo3(signature = (key, expected_value, desired_value, /))]
    fn compare_set<'py>(
        &self,
        py: Python<'py>,
        key: Key,
        expected_value: Value,
        desired_value: Value,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.run(py, |store| store.compare_set(&key.0, &expected_value.0, &desired_value.0))?;
        Ok(PyBytes::new(py, &value))
    }

    /// Return the value of ``key`` as ``bytes``. Wait until some process sets it, at most for the store's timeout.
    #[pyo3(signature = (key, /))]
    fn get<'py>(&self, py: Python<'py>, key: Key) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.run(py, |store| store.get(&key.0))?))
    }

    /// Add ``amount`` to the number at ``key``, and return the sum. An absent key counts as 0.
    #[pyo3(signature = (key, amount, /))]
    fn add(&self, py: Python<'_>, key: Key, amount: i64) -> PyResult<i64> {
        self.run(py, |store| store.add(&key.0, amount))
    }

    /// Whether all ``keys`` are present. Does not wait.
    #[pyo3(signature = (keys, /))]
    fn check(&self, py: Python<'_>, keys: Vec<Key>) -> PyResult<bool> {
        self.run(py, |store| store.check(&borrowed(&keys)))
    }

    /// Delete ``key``, and return whether it was present. A `FileStore` always returns ``True``.
    #[pyo3(signature = (key, /))]
    fn delete_key(&self, py: Python<'_>, key: Key) -> PyResult<bool> {
        self.run(py, |store| store.delete_key(&key.0))
    }

    /// Return the number of keys. A `TCPStore` with ``world_size`` and a `FileStore` count one key of their own.
    fn num_keys(&self, py: Python<'_>) -> PyResult<i64> {
        self.run(py, |store| store.num_keys())
    }

    /// Set the timeout of calls that wait, a ``datetime.timedelta``. Zero waits for ever.
    #[pyo3(signature = (timeout, /))]
    fn set_timeout(&self, timeout: Duration) {
        *self.timeout.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
        if let Some(store) = &self.store {
            store.set_timeout(timeout);
        }
    }

    /// The timeout of calls that wait, a ``datetime.timedelta``.
    #[getter]
    fn timeout(&self) -> Duration {
        match &self.store {
            Some(store) => store.timeout(),
            None => *self.timeout.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Wait until all ``keys`` are present. ``timeout`` replaces the store's timeout for this call.
    #[pyo3(signature = (keys, timeout=None, /))]
    fn wait(&self, py: Python<'_>, keys: Vec<Key>, timeout: Option<Duration>) -> PyResult<()> {
        self.run(py, |store| store.wait(&borrowed(&keys), timeout))
    }

    /// Append ``value`` to the value of ``key``. An absent key counts as empty.
    #[pyo3(signature = (key, value, /))]
    fn append(slf: &Bound<'_, PyStore>, key: Key, value: Value) -> PyResult<()> {
        run_default(slf, |store| store.append(&key.0, &value.0))
    }

    /// Return the values of ``keys`` as a list of ``bytes``. Wait until all are present.
    #[pyo3(signature = (keys, /))]
    fn multi_get<'py>(slf: &Bound<'py, PyStore>, keys: Vec<Key>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let values = run_default(slf, |store| store.multi_get(&borrowed(&keys)))?;
        Ok(values.iter().map(|value| PyBytes::new(slf.py(), value)).collect())
    }

    /// Set each of ``keys`` to its value in ``values``.
    #[pyo3(signature = (keys, values, /))]
    fn multi_set(slf: &Bound<'_, PyStore>, keys: Vec<Key>, values: Vec<Value>) -> PyResult<()> {
        let values: Vec<&[u8]> = values.iter().map(|value| value.0.as_slice()).collect();
        run_default(slf, |store| store.multi_set(&borrowed(&keys), &values))
    }

    /// Append ``value`` to the queue ``key``. One waiting process wakes.
    #[pyo3(signature = (key, value, /))]
    fn queue_push(&self, py: Python<'_>, key: Key, value: Value) -> PyResult<()> {
        self.run(py, |store| store.queue_push(&key.0, &value.0))
    }

    /// Take the first value of the queue ``key``. If the queue is empty, wait, or without ``block`` raise
    /// `QueueEmptyError`.
    #[pyo3(signature = (key, block=true))]
    fn queue_pop<'py>(&self, py: Python<'py>, key: Key, block: bool) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.run(py, |store| store.queue_pop(&key.0, block))?))
    }

    /// Return the number of values in the queue ``key``.
    #[pyo3(signature = (key, /))]
    fn queue_len(&self, py: Python<'_>, key: Key) -> PyResult<i64> {
        self.run(py, |store| store.queue_len(&key.0))
    }

    /// Return all keys, in any order.
    fn list_keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.run(py, |store| store.list_keys())
    }

    /// Whether `append`, `multi_get` and `multi_set` cost no more than one call.
    fn has_extended_api(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.has_extended_api())
    }

    /// Wait until ``world_size`` processes have called this with the same ``key``. A key serves one barrier.
    #[pyo3(signature = (key, world_size, timeout=None))]
    fn barrier(slf: &Bound<'_, PyStore>, key: Key, world_size: usize, timeout: Option<Duration>) -> PyResult<()> {
        run_default(slf, |store| store.barrier(&key.0, world_size, timeout))
    }
}

/// A store that is an object of a class of Python.
struct PythonStore(Py<PyStore>);

impl PythonStore {
    /// Call a method. An exception of its goes through Rust unchanged.
    fn call<R>(&self, f: impl FnOnce(&Bound<'_, PyStore>) -> PyResult<R>) -> torchtpu_tensor::Result<R> {
        Python::attach(|py| f(self.0.bind(py))).map_err(enter::callback_error)
    }
}

impl Store for PythonStore {
    fn identity(&self) -> usize {
        self.0.as_ptr().addr()
    }

    fn set(&self, key: &str, value: &[u8]) -> torchtpu_tensor::Result<()> {
        self.call(|object| object.call_method1("set", (key, PyBytes::new(object.py(), value))).map(drop))
    }
    fn get(&self, key: &str) -> torchtpu_tensor::Result<Vec<u8>> {
        self.call(|object| Ok(object.call_method1("get", (key,))?.extract::<Value>()?.0))
    }
    fn add(&self, key: &str, amount: i64) -> torchtpu_tensor::Result<i64> {
        self.call(|object| object.call_method1("add", (key, amount))?.extract())
    }
    fn check(&self, keys: &[&str]) -> torchtpu_tensor::Result<bool> {
        self.call(|object| object.call_method1("check", (keys.to_vec(),))?.extract())
    }
    fn wait(&self, keys: &[&str], timeout: Option<Duration>) -> torchtpu_tensor::Result<()> {
        self.call(|object| match timeout {
            None => object.call_method1("wait", (keys.to_vec(),)).map(drop),
            Some(timeout) => object.call_method1("wait", (keys.to_vec(), timeout)).map(drop),
        })
    }
    fn timeout(&self) -> Duration {
        self.call(|object| object.getattr("timeout")?.extract()).unwrap_or(DEFAULT_TIMEOUT)
    }
    fn set_timeout(&self, timeout: Duration) {
        if let Err(e) = self.call(|object| object.call_method1("set_timeout", (timeout,)).map(drop)) {
            Python::attach(|py| enter::exception(e).write_unraisable(py, Some(self.0.bind(py).as_any())));
        }
    }
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> torchtpu_tensor::Result<Vec<u8>> {
        self.call(|object| {
            let values = [expected, desired].map(|value| PyBytes::new(object.py(), value));
            let [expected, desired] = values;
            Ok(object.call_method1("compare_set", (key, expected, desired))?.extract::<Value>()?.0)
        })
    }
    fn delete_key(&self, key: &str) -> torchtpu_tensor::Result<bool> {
        self.call(|object| object.call_method1("delete_key", (key,))?.extract())
    }
    fn num_keys(&self) -> torchtpu_tensor::Result<i64> {
        self.call(|object| object.call_method0("num_keys")?.extract())
    }
    fn append(&self, key: &str, value: &[u8]) -> torchtpu_tensor::Result<()> {
        if !self.overrides("append") {
            return store::append_by_compare_set(self, key, value);
        }
        self.call(|object| object.call_method1("append", (key, PyBytes::new(object.py(), value))).map(drop))
    }
    fn has_extended_api(&self) -> bool {
        self.call(|object| object.call_method0("has_extended_api")?.extract()).unwrap_or(false)
    }
    fn queue_push(&self, key: &str, value: &[u8]) -> torchtpu_tensor::Result<()> {
        self.call(|object| object.call_method1("queue_push", (key, PyBytes::new(object.py(), value))).map(drop))
    }
    fn queue_pop(&self, key: &str, block: bool) -> torchtpu_tensor::Result<Vec<u8>> {
        self.call(|object| Ok(object.call_method1("queue_pop", (key, block))?.extract::<Value>()?.0))
    }
    fn queue_len(&self, key: &str) -> torchtpu_tensor::Result<i64> {
        self.call(|object| object.call_method1("queue_len", (key,))?.extract())
    }
    fn list_keys(&self) -> torchtpu_tensor::Result<Vec<String>> {
        self.call(|object| object.call_method0("list_keys")?.extract())
    }
    fn multi_get(&self, keys: &[&str]) -> torchtpu_tensor::Result<Vec<Vec<u8>>> {
        if !self.overrides("multi_get") {
            return store::get_each(self, keys);
        }
        self.call(|object| {
            let values: Vec<Value> = object.call_method1("multi_get", (keys.to_vec(),))?.extract()?;
            Ok(values.into_iter().map(|value| value.0).collect())
        })
    }
    fn multi_set(&self, keys: &[&str], values: &[&[u8]]) -> torchtpu_tensor::Result<()> {
        if !self.overrides("multi_set") {
            return store::set_each(self, keys, values);
        }
        self.call(|object| {
            let values: Vec<_> = values.iter().map(|value| PyBytes::new(object.py(), value)).collect();
            object.call_method1("multi_set", (keys.to_vec(), values)).map(drop)
        })
    }
}

impl PythonStore {
    /// Whether the class has a method of its own. `Store` has one of each name, which would call this store again.
    fn overrides(&self, name: &str) -> bool {
        self.call(|object| {
            let own = object.get_type().getattr(name)?;
            Ok(!own.is(&object.py().get_type::<PyStore>().getattr(name)?))
        })
        .unwrap_or(false)
    }
}

/// A store whose server runs in one process, and that others reach by TCP. Clients and server of PyTorch work with it.
///
/// Args:
///     host_name: the name or address of the server's host.
///     port: the server's port. A server with port 0 takes a free one.
///     world_size: the number of stores that will connect, with the server's. ``None`` if it is not known.
///     is_master: whether this store runs the server.
///     timeout: the time for connecting, and the store's timeout.
///     wait_for_workers: whether the server waits until ``world_size`` stores have connected.
///     multi_tenant: whether stores of this process may share the server of a port.
///     master_listen_fd: the descriptor of a socket that is bound to ``port``. The store takes it over.
///     use_libuv: accepted, and shown as `libuvBackend`. There is one server.
///
/// Raises:
///     DistNetworkError: if the server cannot be reached in time, or the port is in use.
///     DistStoreError: if stores are missing after ``timeout``.
///     ValueError: if ``world_size`` is 0.
#[pyclass(frozen, subclass, extends = PyStore, name = "TCPStore", module = "torch.distributed")]
struct PyTcpStore {
    store: Arc<TcpStore>,
    use_libuv: bool,
}

/// Let a bound socket listen, and take it over. Python's `socket` checks that `fd` is a socket, and listens.
fn listener(py: Python<'_>, fd: i32) -> PyResult<TcpListener> {
    let arguments = PyDict::new(py);
    arguments.set_item("fileno", fd)?;
    let socket = py.import("socket")?.getattr("socket")?.call((), Some(&arguments))?;
    if let Err(e) = socket.call_method1("listen", (BACKLOG,)) {
        // The caller keeps a descriptor that is of no use here.
        socket.call_method0("detach")?;
        return Err(e);
    }
    let fd: i32 = socket.call_method0("detach")?.extract()?;
    // SAFETY: `fd` is open, and `detach` has given it away. By the contract of the argument no other code closes it.
    Ok(TcpListener::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Connections that may wait to be accepted; the kernel's own limit may be lower.
const BACKLOG: i32 = 4096;

impl PyTcpStore {
    fn of(store: Arc<TcpStore>, use_libuv: bool) -> PyClassInitializer<PyTcpStore> {
        PyClassInitializer::from(PyStore::of(store.clone())).add_subclass(PyTcpStore { store, use_libuv })
    }
}

#[pymethods]
impl PyTcpStore {
    #[new]
    #[pyo3(signature = (
        host_name, port, world_size=None, is_master=false, timeout=DEFAULT_TIMEOUT, wait_for_workers=true,
        multi_tenant=false, master_listen_fd=None, use_libuv=true
    ))]
    fn new(
        py: Python<'_>,
        host_name: String,
        port: u16,
        world_size: Option<i64>,
        is_master: bool,
        timeout: Duration,
        wait_for_workers: bool,
        multi_tenant: bool,
        master_listen_fd: Option<i32>,
        use_libuv: bool,
    ) -> PyResult<PyClassInitializer<PyTcpStore>> {
        if world_size == Some(0) {
            return Err(PyValueError::new_err("TCPStore world size cannot be 0"));
        }
        let listener = master_listen_fd.map(|fd| listener(py, fd)).transpose()?;
        let options = TcpOptions {
            port,
            is_server: is_master,
            workers: world_size.and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0),
            wait_for_workers,
            timeout,
            multi_tenant,
            listener,
            serving_rank: None,
        };
        let store = Arc::new(py.detach(|| TcpStore::new(&host_name, options)).or_raise()?);
        Ok(PyTcpStore::of(store, use_libuv))
    }

    /// The host's name, as it was given.
    #[getter]
    fn host(&self) -> &str {
        self.store.host()
    }

    /// The server's port.
    #[getter]
    fn port(&self) -> u16 {
        self.store.port()
    }

    /// What was given as ``use_libuv``.
    #[getter(libuvBackend)]
    fn libuv_backend(&self) -> bool {
        self.use_libuv
    }

    /// Return another client of the same server.
    fn clone(&self, py: Python<'_>) -> PyResult<Py<PyTcpStore>> {
        let store = Arc::new(py.detach(|| self.store.another()).or_raise()?);
        Py::new(py, PyTcpStore::of(store, self.use_libuv))
    }

    fn __repr__(&self) -> String {
        self.store.to_string()
    }
}

/// A store in a file, for processes that share a file system. Processes with PyTorch can share it too.
///
/// Args:
///     file_name: the path of the file. It is made if it is absent.
///     world_size: the number of stores that share the file. The last one that is dropped deletes the file. A negative
///         number keeps it.
#[pyclass(frozen, subclass, extends = PyStore, name = "FileStore", module = "torch.distributed")]
struct PyFileStore(Arc<FileStore>);

impl PyFileStore {
    fn open(py: Python<'_>, path: PathBuf, workers: Option<usize>) -> PyResult<PyClassInitializer<PyFileStore>> {
        let store = Arc::new(py.detach(|| FileStore::new(path, workers)).or_raise()?);
        Ok(PyClassInitializer::from(PyStore::of(store.clone())).add_subclass(PyFileStore(store)))
    }
}

#[pymethods]
impl PyFileStore {
    #[new]
    #[pyo3(signature = (file_name, world_size=-1))]
    fn new(py: Python<'_>, file_name: PathBuf, world_size: i64) -> PyResult<PyClassInitializer<PyFileStore>> {
        PyFileStore::open(py, file_name, usize::try_from(world_size).ok())
    }

    /// The path of the file.
    #[getter]
    fn path(&self) -> String {
        self.0.path().to_string_lossy().into_owned()
    }

    /// Return another store of the same file.
    fn clone(&self, py: Python<'_>) -> PyResult<Py<PyFileStore>> {
        Py::new(py, PyFileStore::open(py, self.0.path().to_path_buf(), self.0.workers())?)
    }
}

/// A store in the memory of this process, for its threads.
#[pyclass(frozen, subclass, extends = PyStore, name = "HashStore", module = "torch.distributed")]
struct PyHashStore(Arc<HashStore>);

impl PyHashStore {
    fn of(store: Arc<HashStore>) -> PyClassInitializer<PyHashStore> {
        PyClassInitializer::from(PyStore::of(store.clone())).add_subclass(PyHashStore(store))
    }
}

#[pymethods]
impl PyHashStore {
    #[new]
    fn new() -> PyClassInitializer<PyHashStore> {
        PyHashStore::of(Arc::default())
    }

    /// Return another object for the same store.
    fn clone(&self, py: Python<'_>) -> PyResult<Py<PyHashStore>> {
        Py::new(py, PyHashStore::of(self.0.clone()))
    }
}

/// A store that puts a prefix before each key, and passes the call to another store.
///
/// Args:
///     prefix: the prefix. A ``/`` follows it.
///     store: the other store.
#[pyclass(frozen, subclass, extends = PyStore, name = "PrefixStore", module = "torch.distributed")]
struct PyPrefixStore {
    prefix: String,
    store: Py<PyStore>,
}

impl PyPrefixStore {
    fn of(prefix: String, store: &Bound<'_, PyStore>) -> PyClassInitializer<PyPrefixStore> {
        let inner: Arc<dyn Store> = Arc::new(PrefixStore::new(prefix.clone(), rust_store(store)));
        let prefixed = PyPrefixStore { prefix, store: store.clone().unbind() };
        PyClassInitializer::from(PyStore::of(inner)).add_subclass(prefixed)
    }
}

#[pymethods]
impl PyPrefixStore {
    #[new]
    #[pyo3(signature = (prefix, store))]
    fn new(prefix: String, store: Option<&Bound<'_, PyStore>>) -> PyResult<PyClassInitializer<PyPrefixStore>> {
        let store = store.ok_or_else(|| PyValueError::new_err("PrefixStore: store: None, must be a Store"))?;
        Ok(PyPrefixStore::of(prefix, store))
    }

    /// The other store.
    #[getter]
    fn underlying_store(&self, py: Python<'_>) -> Py<PyStore> {
        self.store.clone_ref(py)
    }

    /// The first store below that is no `PrefixStore`.
    #[getter]
    fn _underlying_non_prefix_store(&self, py: Python<'_>) -> Py<PyStore> {
        let mut store = self.store.clone_ref(py);
        loop {
            let prefixed = store.bind(py).cast::<PyPrefixStore>();
            let below = prefixed.ok().map(|prefixed| prefixed.get().store.clone_ref(py));
            match below {
                Some(below) => store = below,
                None => return store,
            }
        }
    }

    /// Return a store with the same prefix, around a clone of the other store.
    fn clone(&self, py: Python<'_>) -> PyResult<Py<PyPrefixStore>> {
        let below = self.store.bind(py).call_method0("clone")?;
        Py::new(py, PyPrefixStore::of(self.prefix.clone(), below.cast::<PyStore>()?))
    }
}

/// Tell the other ranks that ``rank`` has come to ``store``.
#[pyfunction]
fn _rendezvous_announce(store: &Bound<'_, PyStore>, rank: usize) -> PyResult<()> {
    run_default(store, |store| rendezvous::announce(store, rank))
}

/// Wait until all ranks have come to ``store``. The error of a timeout names those that have not.
#[pyfunction]
fn _rendezvous_wait(store: &Bound<'_, PyStore>, world_size: usize, timeout: Duration) -> PyResult<()> {
    run_default(store, |store| rendezvous::wait_for_ranks(store, world_size, timeout))
}

/// Prepare the client of device ``tpu`` for a job of several processes. Return the environment variables to set.
#[pyfunction]
fn _accelerator_join(
    store: &Bound<'_, PyStore>,
    rank: usize,
    world_size: usize,
    towards: &str,
) -> PyResult<Vec<(&'static str, String)>> {
    let kept = rust_store(store);
    let variable = |name: &str| std::env::var(name).ok();
    let join = || accelerator::join(kept, rank, world_size, towards, variable);
    store.py().detach(join).or_raise()
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyStore>()?;
    m.add_class::<PyTcpStore>()?;
    m.add_class::<PyFileStore>()?;
    m.add_class::<PyHashStore>()?;
    m.add_class::<PyPrefixStore>()?;
    m.add_function(wrap_pyfunction!(_rendezvous_announce, m)?)?;
    m.add_function(wrap_pyfunction!(_rendezvous_wait, m)?)?;
    m.add_function(wrap_pyfunction!(_accelerator_join, m)?)?;
    Ok(())
}
