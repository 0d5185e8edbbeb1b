//! Sizes that calls pay for: growth must be a decision.

use torchtpu_tensor::graph::Node;
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::{Dims, Error, Meta, Result, Tensor};

#[test]
fn what_every_call_moves_stays_small() {
    assert_eq!(size_of::<Tensor>(), 8);
    assert_eq!(size_of::<Option<Tensor>>(), 8);
    assert_eq!(size_of::<Result<Tensor>>(), 16);
    assert_eq!(size_of::<Error>(), 8);
    assert_eq!(size_of::<Dims>(), 72);
    assert_eq!(size_of::<Meta>(), 80);
    assert!(size_of::<Node>() <= 448, "a node of the tape takes {} bytes", size_of::<Node>());
    assert!(size_of::<Prim>() <= 88, "a node's op takes {} bytes; box its rare attributes", size_of::<Prim>());
}
