//! Algorithms of the collectives.
//!
//! Each is a sequence of steps. In a step a rank sends one message and receives one, at once. All ranks choose the same
//! algorithm, because the choice depends only on bytes and ranks. The order of the operands of a reduction is fixed, so
//! that all ranks end with the same bits, in each run.
//!
//! | collective | small | large |
//! |---|---|---|
//! | all_reduce, 2 ranks | exchange | ring |
//! | all_reduce | recursive doubling | ring |
//! | broadcast | binomial tree | scatter, then ring |
//! | reduce | binomial tree | ring, then gather |
//! | all_gather, reduce_scatter | ring | ring |
//! | gather, scatter | direct | direct |
//! | all_to_all | pairwise | pairwise |
//! | agreement | dissemination | |
//! | barrier | dissemination | |
//!
//! Recursive doubling adds 16-bit floats in `f32` and rounds the result. The other algorithms round after each operand.
//!
//! Headers flow in both directions of a step between two ranks, also if only one of them has a payload. So a rank that
//! only sends also notices a peer in another call.

use crate::reduce::{Combine, ReduceOp, divide, narrow, widened};
use crate::transport::{Body, Fault, Header, Lane, Receiver, Sender, Transport, Watch, exchange, open_link};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchtpu_tensor::DType;

/// Two ranks exchange all elements up to this size, and add all of them. Beyond, each adds one half.
const EXCHANGE_BYTES: usize = 1 << 20;
/// More ranks exchange all elements up to this size.
const DOUBLING_BYTES: usize = 64 << 10;
/// Trees send whole payloads up to this size.
const TREE_BYTES: usize = 256 << 10;

/// The links of one rank for collectives, made at first use.
pub(crate) struct Links {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    transport: Arc<dyn Transport>,
    senders: Vec<Option<Box<dyn Sender>>>,
    receivers: Vec<Option<Box<dyn Receiver>>>,
}

/// The collective that runs: what its messages say, and how long they may take.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) header: Header,
    pub(crate) watch: Watch<'a>,
}

type Step = Result<(), Fault>;

/// The first pause between two looks for a link. The pauses grow, so that waiting ranks do not flood the store.
const FIRST_PAUSE: Duration = Duration::from_micros(50);

impl Links {
    pub(crate) fn new(rank: usize, size: usize, transport: Arc<dyn Transport>) -> Links {
        let senders = (0..size).map(|_| None).collect();
        let receivers = (0..size).map(|_| None).collect();
        Links { rank, size, transport, senders, receivers }
    }

    /// Close all links, so that peers that wait for this rank notice.
    pub(crate) fn close(&mut self) {
        self.senders.iter_mut().for_each(|s| *s = None);
        self.receivers.iter_mut().for_each(|r| *r = None);
    }

    /// Return the ranks that closing now would lose bytes for.
    pub(crate) fn unread(&self) -> impl Iterator<Item = usize> {
        let is_unread = |sender: &Option<Box<dyn Sender>>| sender.as_ref().is_some_and(|s| s.is_unread());
        self.senders.iter().enumerate().filter(move |(_, sender)| is_unread(sender)).map(|(rank, _)| rank)
    }

    /// Send to `to` and receive from `from` at once.
    fn step(&mut self, call: Call, to: usize, from: usize, mut body: Body) -> Step {
        if self.senders[to].is_none() {
            let open = || self.transport.sender(to, Lane::Collective);
            self.senders[to] = Some(open_link(to, call.watch, open)?);
        }
        let Some(sender) = &mut self.senders[to] else { unreachable!("the link was made above") };
        let sender: Option<(usize, &mut dyn Sender)> = Some((to, &mut **sender));
        if let Some(receiver) = &mut self.receivers[from] {
            return exchange(sender, Some((from, &mut **receiver)), call.header, &mut body, call.watch);
        }
        let mut late = LateReceiver { transport: &*self.transport, from, link: None, pause: FIRST_PAUSE, next: None };
        let result = exchange(sender, Some((from, &mut late)), call.header, &mut body, call.watch);
        self.receivers[from] = late.link;
        result
    }

    /// Send a payload to `peer`, which sends only its header.
    fn give(&mut self, call: Call, peer: usize, send: &[u8]) -> Step {
        self.step(call, peer, peer, Body::Copy { send, receive: &mut [] })
    }

    /// Receive a payload from `peer`, to which this rank sends only its header.
    fn take(&mut self, call: Call, peer: usize, receive: &mut [u8]) -> Step {
        self.step(call, peer, peer, Body::Copy { send: &[], receive })
    }
}

/// A link that its peer may not have made yet. The rank sends meanwhile, so that a peer in another call, which never
/// makes the link, notices.
struct LateReceiver<'a> {
    transport: &'a dyn Transport,
    from: usize,
    link: Option<Box<dyn Receiver>>,
    pause: Duration,
    /// When to ask for the link again. Asking may cost a call of the store.
    next: Option<Instant>,
}

impl Receiver for LateReceiver<'_> {
    fn begin(&mut self) -> Result<Option<Header>, Fault> {
        if self.link.is_none() && self.next.is_none_or(|next| Instant::now() >= next) {
            self.link = self.transport.receiver(self.from, Lane::Collective)?;
            self.next = Some(Instant::now() + self.pause);
        }
        self.link.as_mut().map_or(Ok(None), |link| link.begin())
    }

    fn pull(&mut self, most: usize, sink: &mut dyn FnMut(&[u8])) -> Result<usize, Fault> {
        self.link.as_mut().map_or(Ok(0), |link| link.pull(most, sink))
    }

    fn wait(&mut self, at_most: Duration) -> Result<(), Fault> {
        let Some(link) = &mut self.link else {
            std::thread::sleep(self.pause.min(at_most));
            self.pause = (self.pause * 2).min(at_most);
            return Ok(());
        };
        link.wait(at_most)
    }

    fn spins(&self) -> u32 {
        0
    }
}

/// Return the rank `by` places after `rank` in the ring.
fn after(rank: usize, by: usize, size: usize) -> usize {
    (rank + by) % size
}

/// Return the rank `by` places before `rank` in the ring. `by` is at most `2 * size`.
fn before(rank: usize, by: usize, size: usize) -> usize {
    (rank + 2 * size - by) % size
}

/// The bytes of block `k` of `blocks` almost equal ones, whole elements of `element` bytes.
fn block(bytes: usize, element: usize, blocks: usize, k: usize) -> Range<usize> {
    let count = bytes / element;
    let edge = |k: usize| (count as u128 * k as u128 / blocks as u128) as usize * element;
    edge(k)..edge(k + 1)
}

/// Return two ranges of `data` that do not overlap: the first to send, the second to write.
fn two(data: &mut [u8], send: Range<usize>, write: Range<usize>) -> (&[u8], &mut [u8]) {
    let [a, b] = data.get_disjoint_mut([send, write]).expect("blocks of different ranks do not overlap");
    (a, b)
}

pub(crate) fn barrier(links: &mut Links, call: Call) -> Step {
    let mut distance = 1;
    while distance < links.size {
        let to = after(links.rank, distance, links.size);
        let from = before(links.rank, distance, links.size);
        links.step(call, to, from, Body::Copy { send: &[], receive: &mut [] })?;
        distance *= 2;
    }
    Ok(())
}

pub(crate) fn all_reduce(
    links: &mut Links,
    call: Call,
    op: ReduceOp,
    dtype: DType,
    with: Combine,
    data: &mut [u8],
) -> Step {
    let (rank, size) = (links.rank, links.size);
    if size == 2 && data.len() <= EXCHANGE_BYTES {
        let peer = 1 - rank;
        links.step(call, peer, peer, Body::InPlace { data, with: with.received_first(peer < rank) })?;
    } else if size > 2 && data.len() <= DOUBLING_BYTES {
        if let Some(mut wide) = widened(dtype, data)
            && let Ok(with) = Combine::new(op, DType::F32)
        {
            recursive_doubling(links, call, with, &mut wide)?;
            if op == ReduceOp::Avg {
                divide(DType::F32, &mut wide, size);
            }
            narrow(dtype, &wide, data);
            return Ok(());
        }
        recursive_doubling(links, call, with, data)?;
    } else if size > 1 {
        ring_reduce(links, call, dtype.size_bytes(), with, data)?;
        ring_spread(links, call, dtype.size_bytes(), 1, data)?;
    }
    if op == ReduceOp::Avg {
        divide(dtype, data, size);
    }
    Ok(())
}

/// All-reduce in `log2(size)` exchanges of all elements. Ranks beyond the largest power of two hand their elements to a
/// partner, and get the result from it.
fn recursive_doubling(links: &mut Links, call: Call, with: Combine, data: &mut [u8]) -> Step {
    let (rank, size) = (links.rank, links.size);
    let power = if size.is_power_of_two() { size } else { size.next_power_of_two() / 2 };
    if rank >= power {
        links.give(call, rank - power, data)?;
        return links.take(call, rank - power, data);
    }
    let partner = (rank + power < size).then_some(rank + power);
    if let Some(partner) = partner {
        links.step(call, partner, partner, Body::Combine { send: &[], into: data, with })?;
    }
    let mut distance = 1;
    while distance < power {
        let peer = rank ^ distance;
        links.step(call, peer, peer, Body::InPlace { data, with: with.received_first(peer < rank) })?;
        distance *= 2;
    }
    partner.map_or(Ok(()), |partner| links.give(call, partner, data))
}

/// Reduce each block of `data` around the ring. Rank `r` ends with the result of block `r + 1`. The other blocks hold
/// partial results.
fn ring_reduce(links: &mut Links, call: Call, element: usize, with: Combine, data: &mut [u8]) -> Step {
    let (rank, size, bytes) = (links.rank, links.size, data.len());
    for s in 0..size - 1 {
        let sent = block(bytes, element, size, before(rank, s, size));
        let received = block(bytes, element, size, before(rank, s + 1, size));
        let (send, into) = two(data, sent, received);
        let (to, from) = (after(rank, 1, size), before(rank, 1, size));
        // The received partial result begins with the elements of earlier ranks of the ring.
        links.step(call, to, from, Body::Combine { send, into, with: with.received_first(true) })?;
    }
    Ok(())
}

/// Send each block of `data` around the ring. Rank `r` begins with block `r + first`.
fn ring_spread(links: &mut Links, call: Call, element: usize, first: usize, data: &mut [u8]) -> Step {
    let (rank, size, bytes) = (links.rank, links.size, data.len());
    for s in 0..size - 1 {
        let sent = block(bytes, element, size, before(rank + first, s, size));
        let received = block(bytes, element, size, before(rank + first, s + 1, size));
        let (send, receive) = two(data, sent, received);
        links.step(call, after(rank, 1, size), before(rank, 1, size), Body::Copy { send, receive })?;
    }
    Ok(())
}

/// The children and the parent of a rank in the binomial tree, as places relative to the root. The nearest child comes
/// first.
fn tree(place: usize, size: usize) -> (Vec<usize>, Option<usize>) {
    let mut children = Vec::new();
    let mut distance = 1;
    while distance < size {
        if place & distance != 0 {
            return (children, Some(place - distance));
        }
        if place + distance < size {
            children.push(place + distance);
        }
        distance *= 2;
    }
    (children, None)
}

pub(crate) fn broadcast(links: &mut Links, call: Call, root: usize, dtype: DType, data: &mut [u8]) -> Step {
    let (rank, size, bytes) = (links.rank, links.size, data.len());
    let place = before(rank, root, size);
    if size > 2 && bytes > TREE_BYTES {
        // Rank `r` gets block `r`, so that the ring's blocks are those of ranks.
        let element = dtype.size_bytes();
        if rank == root {
            for k in 1..size {
                let to = after(root, k, size);
                links.give(call, to, &data[block(bytes, element, size, to)])?;
            }
        } else {
            links.take(call, root, &mut data[block(bytes, element, size, rank)])?;
        }
        return ring_spread(links, call, element, 0, data);
    }
    let (children, parent) = tree(place, size);
    if let Some(parent) = parent {
        links.take(call, after(parent, root, size), data)?;
    }
    // The farthest child has the largest subtree.
    for child in children.into_iter().rev() {
        links.give(call, after(child, root, size), data)?;
    }
    Ok(())
}

/// Reduce into `data` of the root. On the other ranks `data` ends with partial results.
pub(crate) fn reduce(
    links: &mut Links,
    call: Call,
    root: usize,
    op: ReduceOp,
    dtype: DType,
    with: Combine,
    data: &mut [u8],
) -> Step {
    let (rank, size, bytes, element) = (links.rank, links.size, data.len(), dtype.size_bytes());
    if size > 2 && bytes > TREE_BYTES {
        ring_reduce(links, call, element, with, data)?;
        if rank == root {
            for k in 1..size {
                let from = after(root, k, size);
                links.take(call, from, &mut data[block(bytes, element, size, after(from, 1, size))])?;
            }
        } else {
            links.give(call, root, &data[block(bytes, element, size, after(rank, 1, size))])?;
        }
    } else {
        let (children, parent) = tree(before(rank, root, size), size);
        for child in children {
            let child = after(child, root, size);
            links.step(call, child, child, Body::Combine { send: &[], into: data, with })?;
        }
        if let Some(parent) = parent {
            links.give(call, after(parent, root, size), data)?;
        }
    }
    if rank == root && op == ReduceOp::Avg {
        divide(dtype, data, size);
    }
    Ok(())
}

/// Gather `input` of all ranks into `output`, in the order of ranks.
pub(crate) fn all_gather(links: &mut Links, call: Call, input: &[u8], output: &mut [u8]) -> Step {
    let n = input.len();
    output[links.rank * n..(links.rank + 1) * n].copy_from_slice(input);
    // Blocks of equal size: `n` bytes are one element.
    ring_spread(links, call, n.max(1), 0, output)
}

/// Exchange the equal blocks of `data` in `log2(size)` steps, for few bytes. Each rank has filled its own block.
pub(crate) fn exchange_blocks(links: &mut Links, call: Call, data: &mut [u8]) -> Step {
    let (rank, size) = (links.rank, links.size);
    let n = data.len() / size;
    // Block `i` of the copy is that of rank `rank + i`.
    data.rotate_left(rank * n);
    let mut distance = 1;
    while distance < size {
        let count = distance.min(size - distance) * n;
        let (to, from) = (before(rank, distance, size), after(rank, distance, size));
        let (known, missing) = data.split_at_mut(distance * n);
        links.step(call, to, from, Body::Copy { send: &known[..count], receive: &mut missing[..count] })?;
        distance *= 2;
    }
    data.rotate_right(rank * n);
    Ok(())
}

/// Gather `input` of all ranks into `output` of the root, which is empty on the other ranks.
pub(crate) fn gather(links: &mut Links, call: Call, root: usize, input: &[u8], output: &mut [u8]) -> Step {
    if links.rank != root {
        return links.give(call, root, input);
    }
    let n = input.len();
    output[root * n..(root + 1) * n].copy_from_slice(input);
    for k in 1..links.size {
        let from = after(root, k, links.size);
        links.take(call, from, &mut output[from * n..(from + 1) * n])?;
    }
    Ok(())
}

/// Hand each rank its part of `input` of the root, which is empty on the other ranks.
pub(crate) fn scatter(links: &mut Links, call: Call, root: usize, input: &[u8], output: &mut [u8]) -> Step {
    if links.rank != root {
        return links.take(call, root, output);
    }
    let n = output.len();
    output.copy_from_slice(&input[root * n..(root + 1) * n]);
    for k in 1..links.size {
        let to = after(root, k, links.size);
        links.give(call, to, &input[to * n..(to + 1) * n])?;
    }
    Ok(())
}

/// Reduce `input`, a part for each rank, into `output`, the part of this rank.
pub(crate) fn reduce_scatter(
    links: &mut Links,
    call: Call,
    op: ReduceOp,
    dtype: DType,
    with: Combine,
    input: &[u8],
    output: &mut [u8],
) -> Step {
    let (rank, size, n) = (links.rank, links.size, output.len());
    let part = |k: usize| &input[k * n..(k + 1) * n];
    let mut held = part(before(rank, 1, size)).to_vec();
    for s in 0..size - 1 {
        // The part begins at the rank after its own, and ends at its own.
        output.copy_from_slice(part(before(rank, s + 2, size)));
        let (to, from) = (after(rank, 1, size), before(rank, 1, size));
        links.step(call, to, from, Body::Combine { send: &held, into: output, with: with.received_first(true) })?;
        if s + 2 < size {
            held.copy_from_slice(output);
        }
    }
    if size == 1 {
        output.copy_from_slice(input);
    }
    if op == ReduceOp::Avg {
        divide(dtype, output, size);
    }
    Ok(())
}

/// Send part `k` of `input` to rank `k`, and receive part `k` of `output` from it. The lengths are in bytes.
pub(crate) fn all_to_all(
    links: &mut Links,
    call: Call,
    sent: &[usize],
    received: &[usize],
    input: &[u8],
    output: &mut [u8],
) -> Step {
    let range = |lengths: &[usize], k: usize| {
        let start: usize = lengths[..k].iter().sum();
        start..start + lengths[k]
    };
    let (rank, size) = (links.rank, links.size);
    if sent[rank] != received[rank] {
        // What a rank sends to itself has no header to compare.
        let header = Header { bytes: sent[rank] as u64, ..call.header };
        return Err(Fault::Mismatch { peer: rank, header });
    }
    output[range(received, rank)].copy_from_slice(&input[range(sent, rank)]);
    for k in 1..size {
        let (to, from) = (after(rank, k, size), before(rank, k, size));
        let (send, receive) = (&input[range(sent, to)], &mut output[range(received, from)]);
        links.step(call, to, from, Body::Copy { send, receive })?;
    }
    Ok(())
}
