//! Gradients averaged over rank threads.

use crate::ranks::{PATIENT, run};
use std::sync::Arc;
use torchtpu_autograd::backward;
use torchtpu_distributed::ProcessGroup;
use torchtpu_distributed::reducer::{Reducer, ReducerOptions, broadcast};
use torchtpu_distributed::transport::Network;
use torchtpu_distributed::transport::memory::Memory;
use torchtpu_tensor::{Result, Tensor};

const SIZE: usize = 3;

fn parameter(v: &[f32]) -> Result<Tensor> {
    let x = Tensor::from_slice(v, &[v.len()])?;
    x.requires_grad_(true)?;
    Ok(x)
}

fn on_ranks<R: Send>(work: impl Fn(&ProcessGroup) -> Result<R> + Sync) -> Vec<R> {
    let network: Arc<dyn Network> = Arc::new(Memory::default());
    run(&network, SIZE, PATIENT, |group| work(group).expect("the work succeeds"))
}

fn gradient(x: &Tensor) -> Option<Vec<f32>> {
    x.grad().map(|g| g.to_vec().expect("it is on cpu"))
}

/// Multiply the parameters by the rank, and the second by itself.
fn loss(parameters: &[Tensor], rank: usize) -> Result<Tensor> {
    let first = parameters[0].mul_scalar(rank as f64)?.sum()?;
    first.add(&parameters[1].square()?.sum()?)
}

#[test]
fn gradients_are_averaged() {
    for (bucket_bytes, grads_are_views, is_static) in
        [(1 << 20, false, false), (4, false, false), (4, true, false), (1 << 20, true, true)]
    {
        let options = ReducerOptions {
            first_bucket_bytes: bucket_bytes,
            bucket_bytes,
            grads_are_views,
            is_static,
            ..ReducerOptions::default()
        };
        let results = on_ranks(|group| {
            let rank = group.rank();
            let parameters = [parameter(&[1.0, 2.0])?, parameter(&[rank as f32; 3])?];
            broadcast(group, &parameters, 2)?;
            let named = parameters.iter().map(|p| ("p".to_string(), p.clone())).collect();
            let reducer = Reducer::new(group, None, named, options.clone())?;
            for _ in 0..3 {
                parameters.iter().try_for_each(|p| p.set_grad(None))?;
                reducer.begin(None)?;
                let loss = loss(&parameters, rank)?;
                reducer.expect(None)?;
                backward(&[loss], &[], None, false, None)?;
            }
            assert!(reducer.has_rebuilt_buckets());
            assert_eq!(reducer.steps(), 3);
            Ok([gradient(&parameters[0]), gradient(&parameters[1])])
        });
        for result in results {
            assert_eq!(result, [Some(vec![1.0; 2]), Some(vec![4.0; 3])]);
        }
    }
}

#[test]
fn unused_parameters_keep_their_gradients() {
    let results = on_ranks(|group| {
        let rank = group.rank();
        let parameters = [parameter(&[1.0])?, parameter(&[1.0])?, parameter(&[1.0])?];
        let named = parameters.iter().map(|p| ("p".to_string(), p.clone())).collect();
        let options = ReducerOptions { find_unused: true, ..ReducerOptions::default() };
        let reducer = Reducer::new(group, None, named, options)?;
        reducer.begin(None)?;
        let output = parameters[usize::from(rank == 1)].mul_scalar(3.0)?;
        reducer.expect(Some(std::slice::from_ref(&output)))?;
        backward(&[output], &[], None, false, None)?;
        Ok(parameters.each_ref().map(gradient))
    });
    for result in results {
        assert_eq!(result, [Some(vec![2.0]), Some(vec![1.0]), None]);
    }
}

#[test]
fn dropped_reducers_leave_gradients_alone() {
    let results = on_ranks(|group| {
        let x = parameter(&[1.0])?;
        drop(Reducer::new(group, None, vec![("x".to_string(), x.clone())], ReducerOptions::default())?);
        backward(&[x.mul_scalar(group.rank() as f64)?], &[], None, false, None)?;
        Ok(gradient(&x))
    });
    assert_eq!(results, [Some(vec![0.0]), Some(vec![1.0]), Some(vec![2.0])]);
}
