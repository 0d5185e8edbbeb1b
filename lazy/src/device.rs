//! The plugin, its client, and the compilation for it. The plugin is loaded at the first use.

use crate::disk::{self, DiskCache};
use crate::failure::Failure;
use crate::form::Form;
use crate::{mode, xla_cpu};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use torchtpu_pjrt::{
    Client, Code as PluginErrorCode, CompileOptions, Error as PluginError, Executable, KeyValueStore, OptionValue,
    Plugin, PluginKind,
};
use torchtpu_stablehlo::Profile;
use torchtpu_tensor::{Error, Result};

/// The plugin and the client behind `tpu`.
pub(crate) struct Device {
    pub(crate) client: Arc<Client>,
    pub(crate) disk: Option<DiskCache>,
    /// The parts of the key on disk that do not depend on text and options. Every key begins with them.
    environment: String,
    /// Overrides for the compiler. An override that the compiler does not know is removed after its error.
    overrides: Mutex<Vec<(String, OptionValue)>>,
    pub(crate) dump_folder: Option<PathBuf>,
    /// The capabilities of the platform. Programs get the lowerings that fit them.
    pub(crate) profile: Profile,
    /// The processes that have made the client together. Without them, programs have no collectives of the compiler.
    pub(crate) processes: Option<Processes>,
}

/// The processes of a client.
pub(crate) struct Processes {
    /// The rank of this process.
    pub(crate) rank: usize,
    /// The device of each rank, by its id.
    devices: Vec<i64>,
}

impl Processes {
    /// Return the place of each rank in the machine. See [`crate::rank_coordinates`].
    pub(crate) fn coordinates(&self, client: &Client) -> Option<Vec<Vec<i64>>> {
        let place = |id: &i64| client.devices().iter().find(|d| i64::from(d.id()) == *id)?.description().place();
        self.devices.iter().map(place).collect()
    }
}

static DEVICE: OnceLock<Device> = OnceLock::new();
/// The choices of the program. Locked while a plugin is being loaded.
static REQUEST: Mutex<Request> = Mutex::new(Request { plugin: None, cache: None, job: None });

/// A client that several processes make together.
#[derive(Clone)]
pub struct Job {
    /// Options of the plugin.
    pub options: Vec<(String, OptionValue)>,
    /// The store in which the processes meet.
    pub store: Arc<dyn KeyValueStore>,
    /// The rank of this process.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
}

/// Time that a process waits for the devices of the others, whose clients are made already.
const MEETING_TIME: Duration = Duration::from_secs(300);

impl Job {
    /// Make the client with the other processes, and learn which device each of them has.
    fn meet(&self, plugin: &Arc<Plugin>) -> torchtpu_pjrt::Result<(Arc<Client>, Processes)> {
        let options: Vec<(&str, OptionValue)> = self.options.iter().map(|(k, v)| (&**k, v.clone())).collect();
        let client = Client::create_with(plugin, &options, Some(self.store.clone()))?;
        let key = |rank: usize| format!("device_of_rank/{rank}");
        self.store.put(&key(self.rank), client.default_device().id().to_string().as_bytes())?;
        let known = |id: &i64| client.devices().iter().any(|d| i64::from(d.id()) == *id);
        let mut devices: Vec<i64> = Vec::with_capacity(self.size);
        for rank in 0..self.size {
            let text = self.store.get(&key(rank), MEETING_TIME)?;
            let id = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
            match id.filter(known).filter(|id| !devices.contains(id)) {
                Some(id) => devices.push(id),
                None => {
                    let text = format!(
                        "the plugin {} has not made one client of {} processes: device {} of rank {rank} is not one \
                         that this process knows as its own",
                        plugin.path().display(),
                        self.size,
                        String::from_utf8_lossy(&text)
                    );
                    return Err(PluginError::new(PluginErrorCode::FailedPrecondition, "create client", text));
                }
            }
        }
        Ok((client, Processes { rank: self.rank, devices }))
    }
}

struct Request {
    plugin: Option<String>,
    job: Option<Job>,
    /// `Some(None)` turns the cache off. `None` reads the environment.
    cache: Option<Option<PathBuf>>,
}

/// Choose the plugin: a path, or `cpu`, `cuda`, `tpu`.
///
/// # Errors
/// `Runtime` if a plugin is loaded already.
pub(crate) fn set_plugin(name: &str) -> Result<()> {
    request("the plugin", |r| r.plugin = Some(name.to_string()))
}

/// Return the plugin that the program chose.
pub(crate) fn requested() -> Option<String> {
    REQUEST.lock().plugin.clone()
}

/// Set how the client is made.
///
/// # Errors
/// `Runtime` if a plugin is loaded already.
pub(crate) fn set_job(job: Job) -> Result<()> {
    // A job may leave its process group and join it again.
    let is_same = |p: &Processes| (p.rank, p.devices.len()) == (job.rank, job.size);
    if loaded().and_then(|device| device.processes.as_ref()).is_some_and(is_same) {
        return Ok(());
    }
    request("the processes of the client", |r| r.job = Some(job))
}

/// Return the kind of the plugin that is loaded, or that would be.
///
/// # Errors
/// If none is found.
pub(crate) fn plugin_kind() -> Result<PluginKind> {
    if let Some(device) = loaded() {
        return Ok(PluginKind::of_file(device.client.plugin().path()));
    }
    let path = Plugin::locate(requested().as_deref()).map_err(|e| unavailable("device tpu", &e))?;
    Ok(PluginKind::of_file(&path))
}

/// Choose the folder of executables. `None` turns the cache off.
///
/// # Errors
/// `Runtime` if a plugin is loaded already.
pub(crate) fn set_cache_folder(folder: Option<PathBuf>) -> Result<()> {
    request("the cache folder", |r| r.cache = Some(folder))
}

/// Return the cache on disk that the program or the environment chose.
pub(crate) fn requested_cache() -> Option<DiskCache> {
    cache(&REQUEST.lock())
}

fn cache(request: &Request) -> Option<DiskCache> {
    match &request.cache {
        Some(folder) => folder.clone().map(DiskCache::in_folder),
        None => DiskCache::from_environment(),
    }
}

fn request(what: &str, change: impl FnOnce(&mut Request)) -> Result<()> {
    let mut request = REQUEST.lock();
    if DEVICE.get().is_some() {
        return Err(Error::runtime(format!("{what} must be chosen before the first use of device tpu")));
    }
    change(&mut request);
    Ok(())
}

/// Return the device. The first call loads the plugin. If that fails, the next call tries again.
#[inline]
pub(crate) fn get() -> Result<&'static Device> {
    match DEVICE.get() {
        Some(d) => Ok(d),
        None => load(),
    }
}

/// Return an error if nothing can be recorded: without a device, or in a forked child. A [plan](crate::plan) needs no
/// device.
#[inline]
pub(crate) fn check() -> Result<()> {
    if mode::is_planned() {
        return Ok(());
    }
    get()?.check_process().map_err(|f| f.error())
}

/// The device, if it is loaded.
pub(crate) fn loaded() -> Option<&'static Device> {
    DEVICE.get()
}

/// Return XLA:CPU for programs of device `cpu`: the device behind `tpu`, or a client of its own.
///
/// # Errors
/// If no plugin can be loaded.
pub(crate) fn host() -> Result<&'static Device> {
    static CHOSEN: OnceLock<&'static Device> = OnceLock::new();
    static OWN: OnceLock<Device> = OnceLock::new();
    if let Some(chosen) = CHOSEN.get() {
        return Ok(chosen);
    }
    if let Some(device) = loaded().filter(|d| d.profile.runs_on_host) {
        return Ok(CHOSEN.get_or_init(|| device));
    }
    let plugin = Plugin::find(Some("cpu")).map_err(|e| unavailable("XLA:CPU", &e))?;
    let options = [("cpu_device_count", OptionValue::Int64(1))];
    let client = Client::create(&plugin, &options).map_err(|e| unavailable("XLA:CPU", &e))?;
    let request = REQUEST.lock();
    let own = OWN.get_or_init(|| Device::new(client, cache(&request), None));
    Ok(CHOSEN.get_or_init(|| own))
}

fn unavailable(what: &str, e: &torchtpu_pjrt::Error) -> Error {
    let mut lines = e.message().split("\nnote: ");
    let first = lines.next().unwrap_or_default();
    lines.fold(Error::runtime(format!("{what} is not available: {first}")), |e, note| e.note(note))
}

/// The function to call when the device is loaded.
static ON_LOAD: OnceLock<fn()> = OnceLock::new();

/// Set the function that is called when the device is loaded. The first caller wins.
pub(crate) fn on_load(f: fn()) {
    let _ = ON_LOAD.set(f);
}

#[cold]
fn load() -> Result<&'static Device> {
    let request = REQUEST.lock();
    if let Some(d) = DEVICE.get() {
        return Ok(d);
    }
    let fail = |e: torchtpu_pjrt::Error| unavailable("device tpu", &e);
    let plugin = Plugin::find(request.plugin.as_deref()).map_err(fail)?;
    let (client, processes) = match &request.job {
        Some(job) => job.meet(&plugin).map(|(client, processes)| (client, Some(processes))),
        None => Client::create(&plugin, &[("cpu_device_count", OptionValue::Int64(1))]).map(|client| (client, None)),
    }
    .map_err(fail)?;
    let device = DEVICE.get_or_init(|| Device::new(client, cache(&request), processes));
    if let Some(on_load) = ON_LOAD.get() {
        on_load();
    }
    Ok(device)
}

/// The variable for tests that makes XLA:CPU compile the lowerings for accelerators, if it is `accelerator`.
const LOWERINGS: &str = "TORCHTPU_LOWERINGS";

/// Return the capabilities of the client's platform.
fn profile(client: &Client) -> Profile {
    let rehearses = std::env::var(LOWERINGS).is_ok_and(|v| v.trim() == "accelerator");
    match Profile::of(client.platform_name()) {
        host if host.runs_on_host && rehearses => Profile::REHEARSAL,
        of => Profile { calls_kernels: of.calls_kernels && xla_cpu::kernels::register(client), ..of },
    }
}

/// Return the error of each use of the device in a forked child.
#[cold]
pub(crate) fn forked() -> Failure {
    Failure::new(
        torchtpu_tensor::ErrorKind::Runtime,
        "Cannot re-initialize TPU in forked subprocess. To use TPU with multiprocessing, you must use the 'spawn' \
        start method",
    )
}

/// Return the environment in the header of the bundles of a device with memory of its own. It is the same for a planned
/// device. The version of the runtime is stored with each executable.
pub(crate) fn bundle_environment(platform: &str, (major, minor): (i32, i32), kind: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("torchtpu {version}\n{platform}\nC API {major}.{minor}\n{kind}\n")
}

impl Device {
    fn new(client: Arc<Client>, disk: Option<DiskCache>, processes: Option<Processes>) -> Device {
        torchtpu_pjrt::watch_forks();
        let profile = profile(&client);
        let (major, minor) = client.plugin().api_version();
        let environment = format!(
            "torchtpu {}\n{} {}\nC API {major}.{minor}\n{:?}\n{}\n{}\n",
            env!("CARGO_PKG_VERSION"),
            client.platform_name(),
            client.platform_version(),
            client.plugin().attributes(),
            client.default_device().kind(),
            if profile.runs_on_host { disk::processor() } else { String::new() },
        );
        if profile.runs_on_host {
            xla_cpu::collectives::register(&client);
        }
        Device {
            disk,
            environment,
            overrides: Mutex::new(crate::options::of_profile(&profile)),
            dump_folder: std::env::var_os("TORCHTPU_DUMP_DIR").filter(|v| !v.is_empty()).map(PathBuf::from),
            profile,
            processes,
            client,
        }
    }

    /// Return the bytes of memory that programs may use, if the plugin reports them.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let limit = self.client.device_memory_stats(self.client.default_device()).ok()?.bytes_limit?;
        u64::try_from(limit).ok().filter(|&n| n > 0)
    }

    /// Return whether this process made the client. After a fork, the parent made it.
    pub(crate) fn is_ours(&self) -> bool {
        !torchtpu_pjrt::is_forked()
    }

    /// Return an error in a forked child, where every wait would last forever.
    pub(crate) fn check_process(&self) -> std::result::Result<(), Failure> {
        if self.is_ours() {
            return Ok(());
        }
        Err(forked())
    }

    /// Compile a program for its [ranks](Device::options), without the overrides that this plugin does not know. The
    /// program's own options are always used.
    pub(crate) fn compile(
        &self,
        text: &str,
        own: &[(String, OptionValue)],
        ranks: &[usize],
    ) -> torchtpu_pjrt::Result<Executable> {
        loop {
            let options = self.options(own, ranks);
            let result = self.client.compile(text, &options);
            let Err(e) = &result else { return result };
            let is_own = |(name, _): &(String, OptionValue)| e.message().contains(name.as_str());
            if !e.message().contains("No such compile option") || own.iter().any(is_own) {
                return result;
            }
            let mut list = self.overrides.lock();
            let before = list.len();
            list.retain(|(name, _)| !e.message().contains(name.as_str()));
            if list.len() == before {
                // Another thread may have removed it. The options have then changed.
                let same = options.env_overrides.len() == list.len() + own.len();
                drop(list);
                if same {
                    return result;
                }
            }
        }
    }

    /// Return the options for a program that some ranks run together. Without ranks, this process runs it alone.
    pub(crate) fn options(&self, own: &[(String, OptionValue)], ranks: &[usize]) -> CompileOptions {
        let mut env_overrides = self.overrides.lock().clone();
        env_overrides.extend_from_slice(own);
        let device_assignment = self.processes.as_ref().map(|p| {
            let ranks = if ranks.is_empty() { &[p.rank] } else { ranks };
            vec![ranks.iter().map(|&rank| p.devices[rank]).collect()]
        });
        let num_replicas = ranks.len().max(1) as i64;
        CompileOptions { env_overrides, num_replicas, device_assignment, ..CompileOptions::default() }
    }

    /// Return the ranks that run the programs of a form together, or an empty list if this process runs them alone.
    ///
    /// # Errors
    /// If other processes take part in its collectives, and have no devices of this client.
    pub(crate) fn ranks(&self, form: &Form) -> std::result::Result<Vec<usize>, Failure> {
        let Some(processes) = self.processes.as_ref().filter(|_| !self.profile.calls_collectives) else {
            if form.replicas() == 1 || self.profile.calls_collectives {
                return Ok(Vec::new());
            }
            let name = self.client.platform_name();
            let text = format!("collectives between processes on platform {name} are not implemented");
            return Err(Failure::new(torchtpu_tensor::ErrorKind::NotImplemented, text));
        };
        let ranks = form.ranks_with(processes.rank);
        Ok(if ranks.len() == 1 { Vec::new() } else { ranks })
    }

    /// Return the key of an executable on disk: everything that the executable depends on.
    pub(crate) fn disk_key(&self, text: &str, own: &[(String, OptionValue)], ranks: &[usize]) -> Vec<u8> {
        let mut key = self.environment.clone().into_bytes();
        key.extend_from_slice(format!("{:?}\n", self.options(own, ranks)).as_bytes());
        key.extend_from_slice(text.as_bytes());
        key
    }

    /// Return the environment in the header of bundles of this device, in lines. See [`bundle_environment`].
    pub(crate) fn bundle_environment(&self) -> String {
        if self.profile.runs_on_host {
            return self.environment.clone();
        }
        let plugin = self.client.plugin();
        bundle_environment(self.client.platform_name(), plugin.api_version(), self.client.default_device().kind())
    }

    /// Return the name of the device behind `tpu`.
    pub(crate) fn name(&self) -> String {
        let what = if self.profile.runs_on_host { self.profile.name } else { self.client.default_device().kind() };
        let plugin = self.client.plugin();
        let file = plugin.path().file_stem().map(|f| f.to_string_lossy().into_owned()).unwrap_or_default();
        let (major, minor) = plugin.api_version();
        format!("{what} (PJRT plugin {file} {major}.{minor})")
    }
}
