//! Process groups, collectives and sharding.
//!
//! Ranks, usually processes, meet in a [`Store`](store::Store), and make a [`ProcessGroup`]. A group runs collectives
//! on bytes of a dtype and shape; this crate does not look into tensors. Ranks of one host exchange messages through
//! shared memory, others through TCP ([`transport`]).
//!
//! Each message says its group, sequence number, op, dtype and shape. So a rank that calls another collective than its
//! peers, or one of another shape, gives an error on every rank, and so do a missing rank and a dead process.
//!
//! Three types to know: [`ProcessGroup`], [`Request`] (a collective to run), [`Work`] (one in flight).
//!
//! ```
//! use std::sync::Arc;
//! use torchtpu_distributed::store::HashStore;
//! use torchtpu_distributed::transport::memory::Memory;
//! use torchtpu_distributed::{Op, Options, ProcessGroup, ReduceOp, Request};
//! use torchtpu_tensor::DType;
//!
//! let (store, network) = (Arc::new(HashStore::new()), Arc::new(Memory::default()));
//! std::thread::scope(|threads| {
//!     for rank in 0..2 {
//!         let (store, network) = (store.clone(), network.clone());
//!         threads.spawn(move || {
//!             let group = ProcessGroup::new(store, network, rank, 2, Options::default()).unwrap();
//!             let mut data = [rank as u8 + 1, 10];
//!             let sum = Request::new(Op::AllReduce(ReduceOp::Sum), DType::U8, &[2]);
//!             group.run(&sum, &[], &mut data).unwrap();
//!             assert_eq!(data, [3, 20]);
//!         });
//!     }
//! });
//! ```

#![deny(unsafe_code)]

pub mod accelerator;
mod agree;
mod algo;
mod group;
mod launched;
pub mod mesh;
mod message;
mod owner;
pub mod placement;
mod recorder;
pub mod redistribute;
mod reduce;
pub mod reducer;
pub mod rendezvous;
mod request;
pub mod shard;
pub mod sharded;
pub mod spec;
pub mod store;
pub mod tensors;
pub mod torus;
pub mod transport;
mod watch;
mod work;

pub use group::{DEFAULT_TIMEOUT, Options, ProcessGroup};
pub use recorder::{Entry, Recorder, State};
pub use reduce::{Combine, ReduceOp};
pub use request::{Op, Request, set_compares_shapes};
pub use work::{Memory, Work};
