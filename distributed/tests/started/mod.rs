//! Ranks as processes on XLA:CPU: a test starts its own program again, once for each rank. The tests need a PJRT
//! plugin, which `tests/summary.py` provides. Without one, they fail with its error.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_distributed::store::FileStore;
use torchtpu_distributed::transport::shm::Shm;
use torchtpu_distributed::{Options, ProcessGroup, accelerator, tensors};
use torchtpu_lazy::{self as lazy, Interpret};
use torchtpu_pjrt::Plugin;
use torchtpu_tensor::comm::Group;
use torchtpu_tensor::ops::collective::{self, Reduction};
use torchtpu_tensor::{Device, Error, ErrorKind, Tensor};

const RANK: &str = "TORCHTPU_TEST_RANK";
const SIZE: &str = "TORCHTPU_TEST_SIZE";
const CASE: &str = "TORCHTPU_TEST_CASE";
const FOLDER: &str = "TORCHTPU_TEST_FOLDER";
/// The variable with the plugin that simulates a client of several processes. It is set for ranks of such a client.
const SIMULATED_BY: &str = "TORCHTPU_SIMULATED_BY";
/// Long enough for a loaded machine.
pub const PATIENT: Duration = Duration::from_secs(60);

/// One rank of a case.
pub struct Rank {
    pub rank: usize,
    pub group: ProcessGroup,
    pub tensors: Group,
    pub folder: PathBuf,
}

/// A name, the timeout of the group, and the program of each rank.
pub type Case = (&'static str, Duration, fn(&Rank));

pub fn tpu(v: &[f32]) -> Tensor {
    Tensor::from_slice_on(v, &[v.len()], Device::TPU).expect("it is copied")
}

pub fn values(x: &Tensor) -> Vec<f32> {
    x.to_vec().expect("it is computed")
}

pub fn sum(x: &Tensor, group: &Group) -> Tensor {
    collective::all_reduce(x, Reduction::Sum, group).expect("it is recorded")
}

impl Rank {
    /// Return the error of reading a value.
    pub fn error(&self, x: &Tensor) -> Error {
        let error = x.to_vec::<f32>().expect_err("a rank is missing");
        assert_eq!(error.kind(), ErrorKind::DistBackend, "{error}");
        error
    }

    /// Wait until another rank has written a file.
    pub fn await_file(&self, name: &str) {
        let limit = Instant::now() + PATIENT;
        while !self.folder.join(name).exists() {
            assert!(Instant::now() < limit, "{name} takes too long");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn write_file(&self, name: &str) {
        std::fs::write(self.folder.join(name), "").expect("the folder is writable");
    }
}

/// Whether this process is a rank that a test has started.
pub fn is_rank() -> bool {
    std::env::var_os(RANK).is_some()
}

/// Whether this process is a rank of a client of several processes.
pub fn is_simulated() -> bool {
    std::env::var_os(SIMULATED_BY).is_some()
}

/// Run the case of this rank.
pub fn serve(cases: &[Case]) {
    let number = |name: &str| std::env::var(name).expect("the parent sets it").parse().expect("it is a number");
    let (rank, size): (usize, usize) = (number(RANK), number(SIZE));
    let folder = PathBuf::from(std::env::var(FOLDER).expect("the parent sets the folder"));
    let name = std::env::var(CASE).expect("the parent sets the case");
    let (_, timeout, work) = cases.iter().find(|c| c.0 == name).expect("the case exists");
    lazy::install();
    lazy::set_cache_folder(None).expect("nothing has used the device yet");
    lazy::set_interpret(Interpret::Never);
    let store = Arc::new(FileStore::new(folder.join("store"), None).expect("the store is made"));
    if is_simulated() {
        let no_variable = |_: &str| None;
        let variables = accelerator::join(store.clone(), rank, size, "localhost:0", no_variable);
        assert!(variables.expect("nothing has used the device yet").is_empty());
    }
    let options = Options { timeout: PATIENT, ..Options::default() };
    let group = ProcessGroup::new(store, Arc::new(Shm), rank, size, options).expect("the group is made");
    // All have a device before time counts.
    values(&tpu(&[0.0]));
    group.barrier().expect("all ranks are there");
    group.set_timeout(*timeout);
    let handle = tensors::register(&group, vec![(0..size).collect()]).expect("the partition fits");
    work(&Rank { rank, group, tensors: handle.clone(), folder });
    tensors::unregister(&handle);
}

/// Kills the process when the test ends, however it ends.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(folder: &Path, case: &str, rank: usize, size: usize, environment: &[(&str, &str)]) -> Started {
    let program = std::env::current_exe().expect("the test has a path");
    let log = std::fs::File::create(folder.join(format!("log{rank}"))).expect("the folder is writable");
    let child = Command::new(program)
        .args(["--exact", "program_of_a_rank", "--nocapture"])
        .env(RANK, rank.to_string())
        .env(SIZE, size.to_string())
        .env(FOLDER, folder)
        .env(CASE, case)
        .envs(environment.iter().copied())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    Started(child.expect("the test starts again"))
}

/// Run a case on `size` ranks, each for at most `limit`.
pub fn run(case: &str, size: usize, environment: &[(&str, &str)], limit: Duration) {
    let kept = tempfile::tempdir().expect("the folder is made");
    let mut ranks: Vec<Started> = (0..size).map(|rank| spawn(kept.path(), case, rank, size, environment)).collect();
    let limit = Instant::now() + limit;
    let mut ended = vec![false; size];
    while ended.contains(&false) {
        for (rank, started) in ranks.iter_mut().enumerate() {
            let log = || std::fs::read_to_string(kept.path().join(format!("log{rank}"))).unwrap_or_default();
            let status = started.0.try_wait().expect("the rank can be waited for");
            ended[rank] = status.is_some();
            let ended_well = status.is_none_or(|s| s.success());
            assert!(ended_well, "{case} {environment:?}: rank {rank} ended with {status:?}\n{}", log());
            assert!(Instant::now() < limit, "{case} {environment:?}: rank {rank} does not end\n{}", log());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Run a case on ranks that make one client together, as on accelerators.
pub fn run_simulated(case: &str, size: usize, environment: &[(&str, &str)], limit: Duration) {
    let cpu = Plugin::find(Some("cpu")).expect("the tests have XLA:CPU");
    let tests = std::env::current_exe().expect("the test has a path");
    let plugin = tests.with_file_name("libtorchtpu_simulated_gpu.so");
    assert!(plugin.exists(), "cargo builds {} with the tests", plugin.display());
    let text = |path: &Path| path.to_str().expect("the tests have a plain path").to_string();
    let [plugin, cpu] = [text(&plugin), text(cpu.path())];
    let client = [("TORCHTPU_PJRT_PLUGIN", plugin.as_str()), (SIMULATED_BY, cpu.as_str())];
    run(case, size, &[&client, environment].concat(), limit);
}
