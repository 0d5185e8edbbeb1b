//! Ranks as threads of the test.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use torchtpu_distributed::store::{HashStore, Store};
use torchtpu_distributed::transport::memory::Memory;
use torchtpu_distributed::transport::shm::Shm;
use torchtpu_distributed::transport::tcp::Tcp;
use torchtpu_distributed::transport::{Hosts, Network};
use torchtpu_distributed::{Options, ProcessGroup};

pub fn tcp() -> Tcp {
    Tcp { address: IpAddr::V4(Ipv4Addr::LOCALHOST) }
}

/// Return every network, with its name for messages.
pub fn networks() -> Vec<(&'static str, Arc<dyn Network>)> {
    vec![
        ("memory", Arc::new(Memory::default())),
        ("shm", Arc::new(Shm)),
        ("tcp", Arc::new(tcp())),
        ("hosts", Arc::new(Hosts { tcp: tcp() })),
    ]
}

pub fn options(timeout: Duration) -> Options {
    Options { timeout, ..Options::default() }
}

/// Run `work` on `size` threads, each with its rank of one group. Return the results in the order of ranks.
pub fn run<R: Send>(
    network: &Arc<dyn Network>,
    size: usize,
    timeout: Duration,
    work: impl Fn(&ProcessGroup) -> R + Sync,
) -> Vec<R> {
    let store: Arc<dyn Store> = Arc::new(HashStore::new());
    run_in(&store, network, size, timeout, work)
}

/// Like [`run`], with a store of the caller.
pub fn run_in<R: Send>(
    store: &Arc<dyn Store>,
    network: &Arc<dyn Network>,
    size: usize,
    timeout: Duration,
    work: impl Fn(&ProcessGroup) -> R + Sync,
) -> Vec<R> {
    std::thread::scope(|threads| {
        let spawn = |rank| {
            let (store, network, work) = (store.clone(), network.clone(), &work);
            threads.spawn(move || {
                let group = ProcessGroup::new(store, network, rank, size, options(timeout)).expect("the group is made");
                work(&group)
            })
        };
        let started: Vec<_> = (0..size).map(spawn).collect();
        started.into_iter().map(|t| t.join().expect("the rank does not panic")).collect()
    })
}

/// Long enough for a loaded machine.
pub const PATIENT: Duration = Duration::from_secs(60);
