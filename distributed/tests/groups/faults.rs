//! A network that delays, drops, flips and kills, by a seed.

use crate::ranks::{networks, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use torchtpu_distributed::transport::{Fault, HEADER_BYTES, Lane, Meeting, Network, Receiver, Sender, Transport};
use torchtpu_distributed::{Op, ReduceOp, Request};
use torchtpu_tensor::{DType, Result};

/// What goes wrong, at how many of 1,000 messages.
#[derive(Clone, Copy, Default)]
struct Rates {
    delay: u64,
    drop: u64,
    flip: u64,
    kill: u64,
}

struct Faulty {
    inner: Arc<dyn Network>,
    rates: Rates,
    seed: u64,
}

struct FaultyTransport {
    inner: Arc<dyn Transport>,
    rates: Rates,
    random: Arc<AtomicU64>,
}

struct FaultySender {
    inner: Box<dyn Sender>,
    to: usize,
    rates: Rates,
    random: Arc<AtomicU64>,
}

/// Return the next number of a generator (splitmix64).
fn next(state: &AtomicU64) -> u64 {
    let x = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Network for Faulty {
    fn open(&self, meeting: Meeting) -> Result<Arc<dyn Transport>> {
        let random = Arc::new(AtomicU64::new(self.seed ^ (meeting.rank as u64) << 32));
        Ok(Arc::new(FaultyTransport { inner: self.inner.open(meeting)?, rates: self.rates, random }))
    }
}

impl Transport for FaultyTransport {
    fn sender(&self, to: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Sender>>, Fault> {
        let Some(inner) = self.inner.sender(to, lane)? else { return Ok(None) };
        Ok(Some(Box::new(FaultySender { inner, to, rates: self.rates, random: self.random.clone() })))
    }
    fn receiver(&self, from: usize, lane: Lane) -> std::result::Result<Option<Box<dyn Receiver>>, Fault> {
        self.inner.receiver(from, lane)
    }
}

impl Sender for FaultySender {
    fn push(&mut self, header: &[u8; HEADER_BYTES], payload: &[u8], at: &mut usize) -> std::result::Result<(), Fault> {
        let mut header = *header;
        if *at == 0 {
            let draw = |rate| next(&self.random) % 1000 < rate;
            if draw(self.rates.delay) {
                std::thread::sleep(Duration::from_millis(3));
            }
            if draw(self.rates.drop) {
                *at = HEADER_BYTES + payload.len();
                return Ok(());
            }
            if draw(self.rates.kill) {
                return Err(Fault::System { peer: self.to, text: format!("the link to rank {} was cut", self.to) });
            }
            if draw(self.rates.flip) {
                header[9] ^= 4;
            }
        }
        self.inner.push(&header, payload, at)
    }
    fn wait(&mut self, at_most: Duration) -> std::result::Result<(), Fault> {
        self.inner.wait(at_most)
    }
}

/// Run sums on four ranks until one fails. Return the sums that each rank finished, and its error.
fn sums(inner: &Arc<dyn Network>, rates: Rates, seed: u64, timeout: Duration) -> Vec<(usize, Option<String>)> {
    let network: Arc<dyn Network> = Arc::new(Faulty { inner: inner.clone(), rates, seed });
    run(&network, 4, timeout, |group| {
        for round in 0..60 {
            let count = [1, 100, 30_000][round % 3];
            let mut x = vec![group.rank() as u8 + 1; count];
            let request = Request::new(Op::AllReduce(ReduceOp::Sum), DType::U8, &[count]);
            match group.run(&request, &[], &mut x) {
                Ok(()) => assert!(x.iter().all(|&v| v == 10), "round {round} gave a wrong sum"),
                Err(error) => return (round, Some(error.to_string())),
            }
        }
        (60, None)
    })
}

#[test]
fn delays_change_nothing() {
    for (name, network) in &networks()[..3] {
        for rank in sums(network, Rates { delay: 30, ..Rates::default() }, 1, Duration::from_secs(60)) {
            assert_eq!(rank, (60, None), "{name}");
        }
    }
}

#[test]
fn a_link_that_is_cut_is_an_error_on_every_rank_at_once() {
    for (name, network) in &networks()[..3] {
        for seed in 0..4 {
            let start = Instant::now();
            let ranks = sums(network, Rates { kill: 20, ..Rates::default() }, seed, Duration::from_secs(60));
            assert!(start.elapsed() < Duration::from_secs(20), "{name}, seed {seed}: {:?}", start.elapsed());
            for (rank, (_, error)) in ranks.iter().enumerate() {
                let error = error.as_ref().expect("a link was cut");
                assert!(error.contains("was cut") || error.contains("left the group"), "{name}, rank {rank}: {error}");
            }
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_and_never_a_wrong_sum() {
    for (name, network) in &networks()[..3] {
        for seed in 0..3 {
            let ranks = sums(network, Rates { flip: 20, ..Rates::default() }, seed, Duration::from_secs(60));
            let found = ranks.iter().filter(|(_, e)| e.as_ref().is_some_and(|e| e.contains("wrong checksum"))).count();
            assert_eq!(found, 4, "{name}, seed {seed}: {ranks:?}");
        }
    }
}

#[test]
fn a_lost_message_is_an_error_on_every_rank_within_the_timeout() {
    let timeout = Duration::from_secs(1);
    for (name, network) in &networks()[..3] {
        let start = Instant::now();
        let ranks = sums(network, Rates { drop: 20, ..Rates::default() }, 5, timeout);
        assert!(start.elapsed() < timeout + Duration::from_secs(20), "{name}: {:?}", start.elapsed());
        assert!(ranks.iter().all(|(_, error)| error.is_some()), "{name}: {ranks:?}");
    }
}
