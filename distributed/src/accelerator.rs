//! Clients that several processes make together: what the plugins of accelerators need to know.
//!
//! One process drives one chip. The CUDA plugin takes options and a key-value store, which is the job's [`Store`].
//! libtpu reads environment variables before the client is made. [`join`] prepares both for the process of a rank.

use crate::store::{PrefixStore, Store, check_interrupt};
use crate::transport::tcp::Tcp;
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_lazy::{self as lazy, Job, KeyValueStore, OptionValue, PluginError, PluginErrorCode, PluginKind};
use torchtpu_tensor::{Error, ErrorKind, Result};

/// The first port of libtpu's connections between the processes of a slice. Each process of a host has the next one.
const TPU_PORT: usize = 8476;
/// The port at which slices find each other, and the first port of their connections.
const SLICES_PORT: usize = 8080;

/// The place of a process in a job, as `torchrun` numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// This rank.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
    /// Number of this rank on its host.
    pub local_rank: usize,
    /// Ranks of each host.
    pub local_size: usize,
}

impl Place {
    /// Return the place of a rank, with `LOCAL_RANK` and `LOCAL_WORLD_SIZE`. Without them all ranks are on one host.
    ///
    /// # Errors
    /// `Value` if a variable is no number, or the numbers do not fit each other.
    pub fn of(rank: usize, size: usize, variable: impl Fn(&str) -> Option<String>) -> Result<Place> {
        let number = |name: &str, default: usize| match variable(name) {
            None => Ok(default),
            Some(text) => {
                text.trim().parse().map_err(|_| Error::value(format!("{name}: '{text}', must be a number from 0")))
            }
        };
        let local_size = number("LOCAL_WORLD_SIZE", size)?;
        let place = Place { rank, size, local_rank: number("LOCAL_RANK", rank % local_size.max(1))?, local_size };
        if local_size == 0 || place.local_rank >= local_size || !size.is_multiple_of(local_size) {
            return Err(Error::value(format!(
                "rank {rank} of {size}: LOCAL_RANK {} and LOCAL_WORLD_SIZE {local_size} do not fit. All hosts must \
                 have equally many ranks",
                place.local_rank
            )));
        }
        Ok(place)
    }

    fn hosts(&self) -> usize {
        self.size / self.local_size
    }
}

/// Return the options of the CUDA plugin for the process of a rank.
pub fn cuda_options(place: &Place) -> Vec<(String, OptionValue)> {
    vec![
        ("node_id".into(), OptionValue::Int64(place.rank as i64)),
        ("num_nodes".into(), OptionValue::Int64(place.size as i64)),
        ("visible_devices".into(), OptionValue::Int64List(vec![place.local_rank as i64])),
    ]
}

/// The chips of a TPU slice along each dimension.
pub type Bounds = [usize; 3];

/// Return the chips of a slice of this type, such as `v5litepod-16` or `v4-32`, in the usual shape.
///
/// # Errors
/// `Value` for a type that is not known.
pub fn bounds_of_type(accelerator_type: &str) -> Result<Bounds> {
    let unknown = || {
        Error::value(format!("TPU_ACCELERATOR_TYPE: '{accelerator_type}' is not known"))
            .note("TPU_TOPOLOGY, such as 4x4 or 2x2x4, names the chips of the slice")
    };
    let (generation, number) = accelerator_type.rsplit_once('-').ok_or_else(unknown)?;
    let number: usize = number.parse().map_err(|_| unknown())?;
    match &*generation.to_lowercase() {
        "v5litepod" | "v5e" | "v6e" => flat(number),
        // These names count the two cores of a chip.
        "v4" | "v5p" | "tpu7x" | "v7x" if number.is_multiple_of(2) => solid(number / 2),
        _ => None,
    }
    .ok_or_else(unknown)
}

/// Return the usual shape of a slice in two dimensions.
fn flat(chips: usize) -> Option<Bounds> {
    let power = chips.is_power_of_two().then(|| chips.trailing_zeros())?;
    Some([1 << (power / 2), 1 << power.div_ceil(2), 1])
}

/// Return the usual shape of a slice in three dimensions.
fn solid(chips: usize) -> Option<Bounds> {
    let power = chips.is_power_of_two().then(|| chips.trailing_zeros())?;
    match power {
        0..=2 => flat(chips),
        _ => Some([1 << (power / 3), 1 << ((power + 1) / 3), 1 << power.div_ceil(3)]),
    }
}

/// Return the chips of a slice from its shape, such as `4x4` or `2x2x4`.
///
/// # Errors
/// `Value` for other texts.
pub fn bounds_of_topology(text: &str) -> Result<Bounds> {
    let wrong = || Error::value(format!("TPU_TOPOLOGY: '{text}', must be such as 4x4 or 2x2x4"));
    let sizes = text.split('x').map(|n| n.trim().parse::<usize>().ok().filter(|&n| n > 0));
    let sizes = sizes.collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
    match sizes[..] {
        [x, y] => Ok([x, y, 1]),
        [x, y, z] => Ok([x, y, z]),
        _ => Err(wrong()),
    }
}

/// A TPU slice and the place of a host in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    /// Chips along each dimension.
    pub bounds: Bounds,
    /// Number of this host in its slice.
    pub worker: usize,
    /// Number of this slice, and of all slices of the job.
    pub slice: (usize, usize),
}

impl Slice {
    /// Find the slice of the process of a rank. `variable` has the environment of a TPU VM: `TPU_TOPOLOGY` or
    /// `TPU_ACCELERATOR_TYPE`, `TPU_WORKER_ID`, `MEGASCALE_NUM_SLICES` and `MEGASCALE_SLICE_ID`.
    ///
    /// # Errors
    /// `Value` if a variable cannot be read, or the job does not have one process for each chip.
    pub fn of(place: &Place, variable: impl Fn(&str) -> Option<String>) -> Result<Slice> {
        let number = |name: &str| match variable(name) {
            None => Ok(None),
            Some(text) => text
                .trim()
                .parse::<usize>()
                .map(Some)
                .map_err(|_| Error::value(format!("{name}: '{text}', must be a number from 0"))),
        };
        let slices = number("MEGASCALE_NUM_SLICES")?.unwrap_or(1).max(1);
        let ranks = place.size / slices;
        let bounds = match (variable("TPU_TOPOLOGY"), variable("TPU_ACCELERATOR_TYPE")) {
            (Some(shape), _) => Some(bounds_of_topology(&shape)?),
            (None, Some(accelerator_type)) => Some(bounds_of_type(&accelerator_type)?),
            (None, None) => None,
        };
        let hosts = place.hosts() / slices;
        let chips = |bounds: Bounds| bounds.iter().product::<usize>();
        let bounds = match bounds {
            Some(bounds) if chips(bounds) == ranks => Some(bounds),
            // A job may use some of the chips of one host.
            Some(bounds) if hosts == 1 && ranks < chips(bounds) => flat(ranks),
            None if hosts == 1 => flat(ranks),
            Some(bounds) => {
                let [x, y, z] = bounds;
                return Err(Error::value(format!(
                    "{ranks} ranks of a slice of {x}x{y}x{z} chips: each chip needs one rank, so start {} ranks",
                    chips(bounds) * slices
                )));
            }
            None => None,
        };
        let Some(bounds) = bounds.filter(|_| place.size.is_multiple_of(slices)) else {
            return Err(Error::value(format!(
                "{} ranks on {} hosts do not say the shape of a TPU slice",
                place.size,
                place.hosts()
            ))
            .note("TPU_TOPOLOGY, such as 4x4 or 2x2x4, names the chips of the slice"));
        };
        let host = place.rank / place.local_size;
        let slice = number("MEGASCALE_SLICE_ID")?.unwrap_or(host / hosts.max(1));
        let worker = number("TPU_WORKER_ID")?.unwrap_or(host % hosts.max(1));
        if slice >= slices || worker >= hosts {
            return Err(Error::value(format!(
                "worker {worker} of slice {slice}, must be one of {hosts} hosts of {slices} slices"
            )));
        }
        Ok(Slice { bounds, worker, slice: (slice, slices) })
    }

    /// Return the number of a process in its slice.
    fn task(&self, place: &Place) -> usize {
        self.worker * place.local_size + place.local_rank
    }

    /// Return the variables that libtpu reads. `hosts` are the addresses of the hosts of this slice, by their numbers,
    /// and `first` is that of the first host of the first slice.
    pub fn variables(&self, place: &Place, hosts: &[String], first: &str) -> Vec<(&'static str, String)> {
        let [x, y, z] = self.bounds;
        let port = |local: usize| TPU_PORT + local;
        let addresses: Vec<String> = hosts
            .iter()
            .flat_map(|host| (0..place.local_size).map(move |local| format!("{host}:{}", port(local))))
            .collect();
        let mut variables = vec![
            ("TPU_VISIBLE_CHIPS", place.local_rank.to_string()),
            ("TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1".to_string()),
            ("TPU_PROCESS_BOUNDS", format!("{x},{y},{z}")),
            ("CLOUD_TPU_TASK_ID", self.task(place).to_string()),
            ("TPU_PROCESS_ADDRESSES", addresses.join(",")),
            ("TPU_PROCESS_PORT", port(place.local_rank).to_string()),
            ("TPU_WORKER_ID", self.worker.to_string()),
            ("TPU_WORKER_HOSTNAMES", hosts.join(",")),
            // Several processes of a host use the library.
            ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1".to_string()),
        ];
        if self.slice.1 > 1 {
            variables.extend([
                ("MEGASCALE_COORDINATOR_ADDRESS", format!("{first}:{SLICES_PORT}")),
                ("MEGASCALE_NUM_SLICES", self.slice.1.to_string()),
                ("MEGASCALE_SLICE_ID", self.slice.0.to_string()),
                ("MEGASCALE_PORT", (SLICES_PORT + 1 + place.local_rank).to_string()),
            ]);
        }
        variables
    }
}

/// The address of each host: by slice, then by the number of the host in the slice.
fn hosts(store: &dyn Store, place: &Place, slice: &Slice, own: &str) -> Result<Vec<Vec<String>>> {
    let key = |slice: usize, worker: usize| format!("host/{slice}/{worker}");
    if place.local_rank == 0 {
        store.set(&key(slice.slice.0, slice.worker), own.as_bytes())?;
    }
    let workers = place.hosts() / slice.slice.1;
    let of_slice = |slice: usize| {
        let address = |worker: usize| {
            let bytes = store
                .get(&key(slice, worker))
                .map_err(|e| e.note(format!("waiting for the address of host {worker} of TPU slice {slice}")))?;
            String::from_utf8(bytes).map_err(|_| Error::value("the address of a host is not text"))
        };
        (0..workers).map(address).collect::<Result<Vec<_>>>()
    };
    (0..slice.slice.1).map(of_slice).collect()
}

/// Prepare the client of device `tpu` for a job of several processes. Return environment variables that the caller sets
/// before the first tensor on the device, unless they are set already. On XLA:CPU nothing is prepared: its collectives
/// go through the process group.
///
/// `store` serves this job alone. `towards` is the host and port of the store, for the address of this host.
///
/// # Errors
/// `Runtime` if the client was made already. `Value` if the job does not fit the machine. Those of the store.
pub fn join(
    store: Arc<dyn Store>,
    rank: usize,
    size: usize,
    towards: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(&'static str, String)>> {
    let kind = match lazy::plugin_kind() {
        Ok(kind @ (PluginKind::Cuda | PluginKind::Tpu)) if size > 1 => kind,
        // Without a plugin, the job may still use device `cpu`.
        _ => return Ok(Vec::new()),
    };
    let place = Place::of(rank, size, &variable)?;
    let options = if kind == PluginKind::Cuda { cuda_options(&place) } else { Vec::new() };
    let shared = Arc::new(Shared(PrefixStore::new("pjrt", store.clone())));
    lazy::set_job(Job { options, store: shared, rank, size }).map_err(|_| {
        Error::runtime("init_process_group must be called before the first tensor on device tpu")
            .note("the processes of a job make the client of their accelerators together")
    })?;
    if kind == PluginKind::Cuda {
        return Ok(Vec::new());
    }
    let slice = Slice::of(&place, &variable)?;
    let own = match variable("TPU_WORKER_HOSTNAMES") {
        Some(names) if names.split(',').count() == place.hosts() / slice.slice.1 => {
            names.split(',').nth(slice.worker).unwrap_or_default().trim().to_string()
        }
        _ if place.hosts() == 1 => "localhost".to_string(),
        _ => Tcp::towards(towards).address.to_string(),
    };
    let all = hosts(&PrefixStore::new("accelerator", store), &place, &slice, &own)?;
    Ok(slice.variables(&place, &all[slice.slice.0], &all[0][0]))
}

/// The job's store as the store of a plugin.
pub struct Shared<S>(pub S);

impl<S: Store> KeyValueStore for Shared<S> {
    fn get(&self, key: &str, timeout: Duration) -> std::result::Result<Vec<u8>, PluginError> {
        // A plugin's thread asks: it notices an interrupt of the user between the slices.
        const SLICE: Duration = Duration::from_millis(200);
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // No time left would mean to wait for ever.
            match self.0.wait(&[key], Some(left.clamp(Duration::from_millis(1), SLICE))) {
                Ok(()) => return self.0.get(key).map_err(|e| refused(key, &e)),
                Err(e) if e.kind() != ErrorKind::DistStore => return Err(refused(key, &e)),
                Err(_) if left > SLICE => check_interrupt().map_err(|e| refused(key, &e))?,
                Err(_) => {
                    let text = format!("no process has set the key {key} within {} ms", timeout.as_millis());
                    return Err(PluginError::new(PluginErrorCode::DeadlineExceeded, "key-value store", text));
                }
            }
        }
    }

    fn try_get(&self, key: &str) -> std::result::Result<Vec<u8>, PluginError> {
        if self.0.check(&[key]).map_err(|e| refused(key, &e))? {
            return self.0.get(key).map_err(|e| refused(key, &e));
        }
        Err(PluginError::new(PluginErrorCode::NotFound, "key-value store", format!("the key {key} is absent")))
    }

    fn put(&self, key: &str, value: &[u8]) -> std::result::Result<(), PluginError> {
        self.0.set(key, value).map_err(|e| refused(key, &e))
    }
}

fn refused(key: &str, e: &Error) -> PluginError {
    PluginError::new(PluginErrorCode::Unavailable, "key-value store", format!("key {key}: {}", e.message()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::HashStore;

    fn place(rank: usize, size: usize, local_size: usize) -> Place {
        Place { rank, size, local_rank: rank % local_size, local_size }
    }

    fn variables(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let pairs: Vec<(String, String)> = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        move |name| pairs.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone())
    }

    #[test]
    fn types_have_their_usual_shapes() {
        for (accelerator_type, bounds) in [
            ("v4-8", [2, 2, 1]),
            ("v4-16", [2, 2, 2]),
            ("v4-32", [2, 2, 4]),
            ("v4-64", [2, 4, 4]),
            ("v4-128", [4, 4, 4]),
            ("v4-256", [4, 4, 8]),
            ("v4-512", [4, 8, 8]),
            ("v5p-8", [2, 2, 1]),
            ("v5p-1024", [8, 8, 8]),
            ("v5litepod-1", [1, 1, 1]),
            ("v5litepod-4", [2, 2, 1]),
            ("v5litepod-8", [2, 4, 1]),
            ("v5litepod-16", [4, 4, 1]),
            ("v5litepod-32", [4, 8, 1]),
            ("v5litepod-256", [16, 16, 1]),
            ("v6e-8", [2, 4, 1]),
            ("v6e-64", [8, 8, 1]),
            ("tpu7x-8", [2, 2, 1]),
            ("tpu7x-128", [4, 4, 4]),
        ] {
            assert_eq!(bounds_of_type(accelerator_type).unwrap(), bounds, "{accelerator_type}");
        }
        for wrong in ["v4", "v4-7", "v9-8", "v6e-12", "v5p-x"] {
            assert!(bounds_of_type(wrong).is_err(), "{wrong}");
        }
        assert_eq!(bounds_of_topology("2x2x4").unwrap(), [2, 2, 4]);
        assert_eq!(bounds_of_topology("16x16").unwrap(), [16, 16, 1]);
        assert!(["", "4", "4x", "0x4", "2x2x2x2"].into_iter().all(|text| bounds_of_topology(text).is_err()));
    }

    /// The task, the process bounds and the number of addresses of a rank.
    fn summary(place: Place, given: &[(&str, &str)]) -> (String, String, usize) {
        let slice = Slice::of(&place, variables(given)).unwrap();
        let hosts: Vec<String> = (0..place.hosts() / slice.slice.1).map(|h| format!("10.0.0.{h}")).collect();
        let found = slice.variables(&place, &hosts, "10.0.0.0");
        let of = |name: &str| found.iter().find(|(k, _)| *k == name).unwrap().1.clone();
        (of("CLOUD_TPU_TASK_ID"), of("TPU_PROCESS_BOUNDS"), of("TPU_PROCESS_ADDRESSES").split(',').count())
    }

    #[test]
    fn each_chip_has_its_process() {
        let of = |task: &str, bounds: &str, addresses| (task.to_string(), bounds.to_string(), addresses);
        // One host.
        assert_eq!(summary(place(3, 4, 4), &[]), of("3", "2,2,1", 4));
        assert_eq!(summary(place(5, 8, 8), &[("TPU_ACCELERATOR_TYPE", "v6e-8")]), of("5", "2,4,1", 8));
        assert_eq!(summary(place(2, 4, 4), &[("TPU_ACCELERATOR_TYPE", "v4-8")]), of("2", "2,2,1", 4));
        // Some chips of a host.
        assert_eq!(summary(place(1, 2, 2), &[("TPU_TOPOLOGY", "2x2")]), of("1", "1,2,1", 2));
        // Several hosts, whose numbers are those of the machine.
        assert_eq!(summary(place(6, 16, 4), &[("TPU_TOPOLOGY", "4x4")]), of("6", "4,4,1", 16));
        let second = [("TPU_ACCELERATOR_TYPE", "v5litepod-16"), ("TPU_WORKER_ID", "3")];
        assert_eq!(summary(place(6, 16, 4), &second), of("14", "4,4,1", 16));
        assert_eq!(summary(place(31, 32, 4), &[("TPU_ACCELERATOR_TYPE", "v5p-64")]), of("31", "2,4,4", 32));
        assert_eq!(summary(place(63, 64, 4), &[("TPU_ACCELERATOR_TYPE", "tpu7x-128")]), of("63", "4,4,4", 64));
        // Two slices of 16 chips.
        let slices = [("TPU_ACCELERATOR_TYPE", "v5litepod-16"), ("MEGASCALE_NUM_SLICES", "2")];
        assert_eq!(summary(place(21, 32, 4), &slices), of("5", "4,4,1", 16));
    }

    #[test]
    fn jobs_that_do_not_fit_the_machine_are_refused() {
        let text = |place: Place, given: &[(&str, &str)]| Slice::of(&place, variables(given)).unwrap_err().to_string();
        assert!(text(place(0, 8, 4), &[("TPU_TOPOLOGY", "4x4")]).contains("so start 16 ranks"));
        assert!(text(place(0, 8, 4), &[]).contains("do not say the shape"));
        assert!(
            text(place(0, 8, 4), &[("TPU_TOPOLOGY", "2x4"), ("TPU_WORKER_ID", "2")]).contains("worker 2 of slice 0")
        );
        assert!(text(place(0, 4, 4), &[("TPU_WORKER_ID", "x")]).contains("TPU_WORKER_ID: 'x'"));
        let place_of = |given: &[(&str, &str)]| Place::of(3, 8, variables(given));
        let pair = [("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2")];
        assert_eq!(place_of(&pair).unwrap(), Place { rank: 3, size: 8, local_rank: 1, local_size: 2 });
        assert_eq!(place_of(&[]).unwrap(), Place { rank: 3, size: 8, local_rank: 3, local_size: 8 });
        assert!(place_of(&[("LOCAL_WORLD_SIZE", "3")]).is_err());
        assert!(place_of(&[("LOCAL_RANK", "2"), ("LOCAL_WORLD_SIZE", "2")]).is_err());
    }

    #[test]
    fn all_variables_of_a_process_of_two_slices() {
        let place = place(21, 32, 4);
        let given = [("TPU_TOPOLOGY", "4x4"), ("MEGASCALE_NUM_SLICES", "2"), ("MEGASCALE_SLICE_ID", "1")];
        let slice = Slice::of(&place, variables(&given)).unwrap();
        let hosts: Vec<String> = (4..8).map(|h| format!("host{h}")).collect();
        let found = slice.variables(&place, &hosts, "host0");
        let addresses: Vec<String> =
            (4..8).flat_map(|h| (8476..8480).map(move |port| format!("host{h}:{port}"))).collect();
        let expected = [
            ("TPU_VISIBLE_CHIPS", "1"),
            ("TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1"),
            ("TPU_PROCESS_BOUNDS", "4,4,1"),
            ("CLOUD_TPU_TASK_ID", "5"),
            ("TPU_PROCESS_ADDRESSES", &addresses.join(",")),
            ("TPU_PROCESS_PORT", "8477"),
            ("TPU_WORKER_ID", "1"),
            ("TPU_WORKER_HOSTNAMES", "host4,host5,host6,host7"),
            ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
            ("MEGASCALE_COORDINATOR_ADDRESS", "host0:8080"),
            ("MEGASCALE_NUM_SLICES", "2"),
            ("MEGASCALE_SLICE_ID", "1"),
            ("MEGASCALE_PORT", "8082"),
        ];
        assert_eq!(found, expected.map(|(k, v)| (k, v.to_string())));
    }

    #[test]
    fn hosts_find_each_other_in_the_store() {
        let store = HashStore::new();
        let slice = |worker| Slice { bounds: [4, 2, 1], worker, slice: (0, 1) };
        std::thread::scope(|threads| {
            let found: Vec<_> = [(0, 1), (4, 0), (1, 1), (5, 0)]
                .map(|(rank, worker)| {
                    let store = &store;
                    threads.spawn(move || hosts(store, &place(rank, 8, 4), &slice(worker), &format!("at{worker}")))
                })
                .into_iter()
                .map(|thread| thread.join().unwrap().unwrap())
                .collect();
            // The numbers of the machine count, not those of the ranks.
            assert!(found.iter().all(|hosts| *hosts == [["at0", "at1"]]), "{found:?}");
        });
        store.set_timeout(Duration::from_millis(50));
        let late = hosts(&store, &place(0, 12, 4), &Slice { bounds: [4, 3, 1], ..slice(0) }, "at0").unwrap_err();
        assert!(late.notes().iter().any(|n| n.contains("the address of host 2 of TPU slice 0")), "{late:?}");
    }

    #[test]
    fn plugins_use_the_store_of_the_job() {
        let store = Arc::new(HashStore::new());
        let shared = Shared(PrefixStore::new("pjrt", store.clone()));
        let code = |e: PluginError| (e.code(), e.message().to_string());
        assert_eq!(code(shared.try_get("a").unwrap_err()), (PluginErrorCode::NotFound, "the key a is absent".into()));
        let late = shared.get("a", Duration::from_millis(20)).unwrap_err();
        let text = "no process has set the key a within 20 ms".to_string();
        assert_eq!(code(late), (PluginErrorCode::DeadlineExceeded, text));
        let value = std::thread::scope(|threads| {
            let waiting = threads.spawn(|| shared.get("a", Duration::from_secs(60)));
            shared.put("a", b"\0value").unwrap();
            waiting.join().unwrap().unwrap()
        });
        assert_eq!((value, shared.try_get("a").unwrap()), (b"\0value".to_vec(), b"\0value".to_vec()));
        assert!(store.check(&["pjrt/a"]).unwrap());
    }

    #[test]
    fn a_process_of_cuda_sees_its_own_device() {
        let list = |n| OptionValue::Int64List(vec![n]);
        let expected = [
            ("node_id".to_string(), OptionValue::Int64(5)),
            ("num_nodes".to_string(), OptionValue::Int64(8)),
            ("visible_devices".to_string(), list(1)),
        ];
        assert_eq!(cuda_options(&place(5, 8, 4)), expected);
    }
}
