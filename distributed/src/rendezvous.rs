//! How the processes of a job find each other: a URL gives each its rank, the number of ranks, and a store.
//!
//! | URL | store | rank and world size |
//! |---|---|---|
//! | `env://` | TCP, at `MASTER_ADDR` and `MASTER_PORT` | `RANK` and `WORLD_SIZE` |
//! | `tcp://host:port?rank=0&world_size=2` | TCP | in the URL |
//! | `file:///path?rank=0&world_size=2` | a file | in the URL |
//!
//! Arguments `rank` and `world_size` in the URL of `env://` replace the environment's. With TCP, rank 0 runs the
//! server, unless the agent of `torchrun` does (`TORCHELASTIC_USE_AGENT_STORE`).

use crate::store::{FileStore, Store, TcpOptions, TcpStore, check_interrupt};
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_tensor::{Error, ErrorKind, Result};

/// A process's place in a job.
pub struct Rendezvous {
    /// The store that all ranks share.
    pub store: Arc<dyn Store>,
    /// The number of this process, from 0.
    pub rank: usize,
    /// The number of processes.
    pub world_size: usize,
}

/// Find the other processes by `url`. Return once all of them have come. `timeout` is also that of the store.
///
/// # Errors
///
/// [`Value`](ErrorKind::Value) if the URL or the environment is incomplete. [`DistNetwork`](ErrorKind::DistNetwork) if
/// rank 0 cannot be reached. [`DistStore`](ErrorKind::DistStore), with the missing ranks, if some do not come in time.
pub fn rendezvous(url: &str, timeout: Duration) -> Result<Rendezvous> {
    let begin = Instant::now();
    let place = Place::of(url, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))?;
    let (rank, world_size) = (place.rank, place.world_size);
    let store: Arc<dyn Store> = match place.meeting {
        Meeting::Tcp { host, port } => {
            let is_served_by_agent = agent_serves(&host, port);
            let options = TcpOptions {
                port,
                is_server: rank == 0 && !is_served_by_agent,
                serving_rank: (!is_served_by_agent).then_some(0),
                workers: Some(world_size),
                wait_for_workers: false,
                timeout,
                multi_tenant: true,
                listener: None,
            };
            Arc::new(TcpStore::new(&host, options)?)
        }
        Meeting::File { path } => {
            let store = FileStore::new(path, Some(world_size))?;
            store.set_timeout(timeout);
            Arc::new(store)
        }
    };
    announce(&*store, rank)?;
    // Zero would mean: for ever.
    let left = match timeout {
        Duration::ZERO => timeout,
        _ => timeout.saturating_sub(begin.elapsed()).max(Duration::from_millis(1)),
    };
    wait_for_ranks(&*store, world_size, left)?;
    Ok(Rendezvous { store, rank, world_size })
}

fn key_of(rank: usize) -> String {
    format!("rendezvous/rank/{rank}")
}

/// Tell the other ranks that `rank` has come.
pub fn announce(store: &dyn Store, rank: usize) -> Result<()> {
    store.set(&key_of(rank), b"1")
}

/// Wait until ranks 0 to `world_size` - 1 have come.
///
/// # Errors
///
/// [`DistStore`](ErrorKind::DistStore) with the missing ranks, after `timeout`.
pub fn wait_for_ranks(store: &dyn Store, world_size: usize, timeout: Duration) -> Result<()> {
    let keys: Vec<String> = (0..world_size).map(key_of).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let error = match store.wait(&keys, Some(timeout)) {
        Err(e) if e.kind() == ErrorKind::DistStore => e,
        result => return result,
    };
    check_interrupt()?;
    let mut missing = Vec::new();
    for (rank, key) in keys.iter().enumerate() {
        if !store.check(&[key])? {
            missing.push(rank);
        }
    }
    match missing.len() {
        // The last one came at this moment.
        0 => Ok(()),
        _ => Err(Error::new(error.kind(), missing_text(&missing, world_size, timeout))),
    }
}

#[cold]
fn missing_text(missing: &[usize], world_size: usize, timeout: Duration) -> String {
    const SHOWN: usize = 16;
    let mut names: Vec<String> = missing.iter().take(SHOWN).map(usize::to_string).collect();
    if missing.len() > SHOWN {
        names.push(format!("and {} more", missing.len() - SHOWN));
    }
    let (ranks, have) = if missing.len() == 1 { ("rank", "has") } else { ("ranks", "have") };
    let joined = world_size - missing.len();
    format!(
        "rendezvous: timed out after {}ms: {ranks} {} {have} not joined, {joined}/{world_size} ranks joined.",
        timeout.as_millis(),
        names.join(", ")
    )
}

/// Whether the agent of `torchrun` runs the server at `host` and `port`.
fn agent_serves(host: &str, port: u16) -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    is("TORCHELASTIC_USE_AGENT_STORE", "True") && is("MASTER_ADDR", host) && is("MASTER_PORT", &port.to_string())
}

/// What a URL says.
#[derive(PartialEq, Eq, Debug)]
struct Place {
    meeting: Meeting,
    rank: usize,
    world_size: usize,
}

#[derive(PartialEq, Eq, Debug)]
enum Meeting {
    Tcp { host: String, port: u16 },
    File { path: String },
}

impl Place {
    /// Read `url`, with variables of the environment as `variable` returns them.
    fn of(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Place> {
        let unknown = || Error::runtime(format!("No rendezvous handler for {url}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let failed = |what: String| {
            Error::value(format!("Error initializing torch.distributed using {scheme}:// rendezvous: {what}"))
        };
        let argument = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_string())
        };
        let number = |name: &str, text: String| {
            text.parse::<usize>().map_err(|_| failed(format!("{name}: '{text}', must be a number from 0")))
        };
        let required = |name: &str| {
            variable(name).ok_or_else(|| failed(format!("environment variable {name} expected, but not set")))
        };
        let given = |name: &str, words: &str| argument(name).ok_or_else(|| failed(format!("{words} missing")));
        let port_of = |text: &str| {
            text.parse::<u16>()
                .map_err(|_| Error::value(format!("port must have value from 0 to 65535 but was {text}.")))
        };
        let (meeting, rank, world_size) = match scheme {
            "env" => {
                let rank = argument("rank").map_or_else(|| required("RANK"), Ok)?;
                let world_size = argument("world_size").map_or_else(|| required("WORLD_SIZE"), Ok)?;
                let host = required("MASTER_ADDR")?;
                (Meeting::Tcp { host, port: port_of(&required("MASTER_PORT")?)? }, rank, world_size)
            }
            "tcp" => {
                let address = address.trim_end_matches('/');
                // The colons of an IPv6 address stand in brackets.
                let port = address.rsplit_once(':').filter(|(_, port)| !port.is_empty() && !port.contains(']'));
                let (host, port) = port.ok_or_else(|| failed("port number missing".into()))?;
                let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
                let (rank, world_size) =
                    (given("rank", "rank parameter")?, given("world_size", "world size parameter")?);
                (Meeting::Tcp { host, port: port_of(port)? }, rank, world_size)
            }
            "file" => {
                // The host of a file's URL, before the path, is this one.
                let path = address.find('/').map_or("", |start| &address[start..]);
                if path.is_empty() {
                    return Err(failed("path missing".into()));
                }
                let (rank, world_size) =
                    (given("rank", "rank parameter")?, given("world_size", "world size parameter")?);
                (Meeting::File { path: path.to_string() }, rank, world_size)
            }
            _ => return Err(unknown()),
        };
        let (rank, world_size) = (number("rank", rank)?, number("world_size", world_size)?);
        if rank >= world_size {
            return Err(failed(format!("rank: {rank}, must be less than world_size, {world_size}")));
        }
        Ok(Place { meeting, rank, world_size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str, variables: &[(&str, &str)]) -> std::result::Result<Place, String> {
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string());
        Place::of(url, variable).map_err(|e| e.to_string())
    }

    #[test]
    fn urls_say_where_to_meet() {
        let tcp =
            |host: &str, rank| Place { meeting: Meeting::Tcp { host: host.into(), port: 1234 }, rank, world_size: 2 };
        assert_eq!(place("tcp://10.1.1.20:1234?rank=1&world_size=2", &[]), Ok(tcp("10.1.1.20", 1)));
        assert_eq!(place("tcp://[::1]:1234?rank=0&world_size=2", &[]), Ok(tcp("::1", 0)));
        let all = [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "host"), ("MASTER_PORT", "1234")];
        assert_eq!(place("env://", &all), Ok(tcp("host", 1)));
        assert_eq!(place("env://?rank=0", &all), Ok(tcp("host", 0)));
        let file = Meeting::File { path: "/meet".into() };
        let expected = Place { meeting: file, rank: 0, world_size: 2 };
        assert_eq!(place("file:///meet?rank=0&world_size=2", &[]), Ok(expected));
    }

    #[test]
    fn incomplete_urls_are_refused_in_the_words_of_pytorch() {
        let start = "Error initializing torch.distributed using ";
        let refused = |url: &str, variables: &[(&str, &str)], words: &str| {
            assert_eq!(place(url, variables), Err(format!("{start}{words}")));
        };
        refused("env://", &[], "env:// rendezvous: environment variable RANK expected, but not set");
        let rank = [("RANK", "0"), ("WORLD_SIZE", "1")];
        refused("env://", &rank, "env:// rendezvous: environment variable MASTER_ADDR expected, but not set");
        refused("tcp://host?rank=0&world_size=1", &[], "tcp:// rendezvous: port number missing");
        refused("tcp://host:1?world_size=1", &[], "tcp:// rendezvous: rank parameter missing");
        refused("tcp://host:1?rank=0", &[], "tcp:// rendezvous: world size parameter missing");
        refused("file://?rank=0&world_size=1", &[], "file:// rendezvous: path missing");
        refused("file:///f?world_size=1", &[], "file:// rendezvous: rank parameter missing");
        let words = "file:// rendezvous: rank: 2, must be less than world_size, 2";
        refused("file:///f?rank=2&world_size=2", &[], words);
        assert_eq!(place("invalid://", &[]), Err("No rendezvous handler for invalid://".into()));
    }

    #[test]
    fn a_timeout_names_the_missing_ranks() {
        let store = crate::store::HashStore::new();
        announce(&store, 1).unwrap();
        let error = wait_for_ranks(&store, 4, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DistStore);
        let expected = "rendezvous: timed out after 20ms: ranks 0, 2, 3 have not joined, 1/4 ranks joined.";
        assert_eq!(error.message(), expected);
    }
}
