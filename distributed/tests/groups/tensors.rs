//! Collectives of tensors on device `cpu`, on rank threads.

use crate::ranks::{PATIENT, options, run};
use std::sync::Arc;
use std::time::Duration;
use torchtpu_distributed::transport::Network;
use torchtpu_distributed::transport::memory::Memory;
use torchtpu_distributed::{ProcessGroup, tensors};
use torchtpu_tensor::comm::Group;
use torchtpu_tensor::ops::collective::{self, Reduction};
use torchtpu_tensor::{Device, Dims, ErrorKind, Result, Tensor, c64};

const SIZE: usize = 4;

/// Run `work` on rank threads, each with its rank and its group for tensors.
fn on_ranks<R: Send>(timeout: Duration, work: impl Fn(usize, &Group) -> R + Sync) -> Vec<R> {
    let network: Arc<dyn Network> = Arc::new(Memory::default());
    run(&network, SIZE, timeout, |group: &ProcessGroup| {
        let handle = tensors::register(group, vec![group.ranks().to_vec()]).expect("the partition fits");
        let result = work(group.rank(), &handle);
        tensors::unregister(&handle);
        result
    })
}

/// Return the elements of a rank: distinct numbers with exact sums.
fn data(rank: usize, rows: usize) -> Vec<f32> {
    (0..rows * 2).map(|i| (rank * 100 + i) as f32 - 7.0).collect()
}

fn tensor(v: &[f32]) -> Tensor {
    Tensor::from_slice_on(v, &[v.len() / 2, 2], Device::CPU).expect("it fits into memory")
}

type Collective = fn(&Tensor, &Group, usize) -> Result<Tensor>;

/// The results of a collective on all ranks, from the elements of all ranks.
type Oracle = fn(&[Vec<f32>]) -> Vec<Vec<f32>>;

const PAIRS: [(usize, usize); 3] = [(0, 2), (1, 0), (2, 1)];

fn sum(x: &[Vec<f32>]) -> Vec<f32> {
    (0..x[0].len()).map(|i| x.iter().map(|x| x[i]).sum()).collect()
}

/// Collectives that are linear, as maps of the elements of all ranks.
const LINEAR: [(&str, Collective, Oracle); 7] = [
    ("all_reduce", |x, g, _| collective::all_reduce(x, Reduction::Sum, g), |x| vec![sum(x); SIZE]),
    ("mean", |x, g, _| collective::mean(x, g), |x| vec![sum(x).iter().map(|v| v / SIZE as f32).collect(); SIZE]),
    (
        "reduce",
        |x, g, _| collective::reduce(x, Reduction::Sum, 1, g),
        |x| (0..SIZE).map(|r| if r == 1 { sum(x) } else { vec![0.0; x[0].len()] }).collect(),
    ),
    ("broadcast", |x, g, _| collective::broadcast(x, 2, g), |x| vec![x[2].clone(); SIZE]),
    ("all_gather", |x, g, _| collective::all_gather(x, g), |x| vec![x.concat(); SIZE]),
    (
        "reduce_scatter",
        |x, g, _| collective::reduce_scatter(x, Reduction::Sum, g),
        |x| sum(x).chunks_exact(x[0].len() / SIZE).map(<[f32]>::to_vec).collect(),
    ),
    (
        "permute",
        |x, g, _| collective::permute(x, &PAIRS, g),
        |x| {
            let source = |r| PAIRS.iter().find(|p| p.1 == r).map(|p| p.0);
            (0..SIZE).map(|r| source(r).map_or(vec![0.0; x[0].len()], |s| x[s].clone())).collect()
        },
    ),
];

#[test]
fn results_are_those_of_one_process() {
    for (name, call, oracle) in LINEAR {
        let x: Vec<Vec<f32>> = (0..SIZE).map(|r| data(r, 8)).collect();
        let wanted = oracle(&x);
        let got = on_ranks(PATIENT, |rank, group| {
            let y = call(&tensor(&x[rank]), group, rank).expect("all ranks are there");
            y.to_vec::<f32>().expect("it is on cpu")
        });
        assert_eq!(got, wanted, "{name}");
    }
}

#[test]
fn gradients_are_those_of_one_process() {
    for (name, call, oracle) in LINEAR {
        let x: Vec<Vec<f32>> = (0..SIZE).map(|r| data(r, 8)).collect();
        // The loss of each rank weighs its result. The gradient is that of the sum of all losses.
        let weight = |rank: usize, i: usize| ((rank * 3 + i * 5) % 4) as f32 + 1.0;
        let got = on_ranks(PATIENT, |rank, group| {
            let x = tensor(&x[rank]);
            x.requires_grad_(true).expect("it is a leaf");
            let y = call(&x, group, rank).expect("all ranks are there");
            let weights: Vec<f32> = (0..y.numel()).map(|i| weight(rank, i)).collect();
            let loss = y.mul(&Tensor::from_slice_on(&weights, y.dims(), Device::CPU).unwrap()).unwrap().sum().unwrap();
            torchtpu_autograd::backward(&[loss], &[], None, false, None).expect("all ranks go backward");
            x.grad().expect("it is a leaf").to_vec::<f32>().expect("it is on cpu")
        });
        // The map is linear, so its columns are the results for units.
        for rank in 0..SIZE {
            for i in 0..x[0].len() {
                let mut unit = vec![vec![0.0; x[0].len()]; SIZE];
                unit[rank][i] = 1.0;
                let y = oracle(&unit);
                let wanted: f32 = y
                    .iter()
                    .enumerate()
                    .flat_map(|(r, y)| y.iter().enumerate().map(move |(i, v)| v * weight(r, i)))
                    .sum();
                assert_eq!(got[rank][i], wanted, "{name}: element {i} of rank {rank}");
            }
        }
    }
}

#[test]
fn rows_are_exchanged_in_unequal_numbers() {
    // Rank `r` sends `r + to` rows to rank `to`. Each row says where it comes from and where it goes.
    let got = on_ranks(PATIENT, |rank, group| {
        let sent: Vec<usize> = (0..SIZE).map(|to| rank + to).collect();
        let received: Vec<usize> = (0..SIZE).map(|from| from + rank).collect();
        let rows: Vec<f32> = (0..SIZE).flat_map(|to| [rank as f32, to as f32].repeat(sent[to])).collect();
        let x = tensor(&rows);
        x.requires_grad_(true).expect("it is a leaf");
        let y = collective::all_to_all(&x, &sent, &received, group).expect("all ranks are there");
        let loss = y.square().and_then(|y| y.sum()).expect("it fits into memory");
        torchtpu_autograd::backward(&[loss], &[], None, false, None).expect("all ranks go backward");
        let twice: Vec<f32> = rows.iter().map(|v| v * 2.0).collect();
        assert_eq!(x.grad().expect("it is a leaf").to_vec::<f32>().expect("it is on cpu"), twice);
        y.to_vec::<f32>().expect("it is on cpu")
    });
    for (rank, got) in got.into_iter().enumerate() {
        let wanted: Vec<f32> = (0..SIZE).flat_map(|from| [from as f32, rank as f32].repeat(from + rank)).collect();
        assert_eq!(got, wanted, "rank {rank}");
    }
}

#[test]
fn other_functions_and_dtypes_are_combined() {
    on_ranks(PATIENT, |rank, group| {
        let x = Tensor::from_slice_on(&[rank as i64 + 1, 6], &[2], Device::CPU).unwrap();
        let reduced = |by| collective::all_reduce(&x, by, group).unwrap().to_vec::<i64>().unwrap();
        assert_eq!(reduced(Reduction::Product), [24, 1296]);
        assert_eq!(reduced(Reduction::Min), [1, 6]);
        assert_eq!(reduced(Reduction::Max), [4, 6]);
        assert_eq!(reduced(Reduction::And), [0, 6]);
        assert_eq!(reduced(Reduction::Or), [7, 6]);
        assert_eq!(reduced(Reduction::Xor), [4, 0]);
        let x = Tensor::from_slice_on(&[-7i64 - rank as i64], &[], Device::CPU).unwrap();
        assert_eq!(collective::mean(&x, group).unwrap().to_vec::<i64>().unwrap(), [-8], "-34 / 4 toward zero");
        let z = Tensor::from_slice_on(&[c64::new(rank as f32, 1.0)], &[1], Device::CPU).unwrap();
        let sum = collective::all_reduce(&z, Reduction::Sum, group).unwrap();
        assert_eq!(sum.to_vec::<c64>().unwrap(), [c64::new(6.0, 4.0)]);
        // A view that is not contiguous.
        let rows = tensor(&data(rank, 3)).transpose(0, 1).unwrap();
        let all = collective::all_gather(&rows, group).unwrap();
        assert_eq!(*all.dims(), Dims::new(&[2 * SIZE, 3]));
        let second = all.to_vec::<f32>().unwrap()[6..12].to_vec();
        assert_eq!(second, [93.0, 95.0, 97.0, 94.0, 96.0, 98.0]);
    });
}

#[test]
fn ranks_with_the_largest_share_its_gradient() {
    on_ranks(PATIENT, |rank, group| {
        // All ranks have the first element, and the last rank the second.
        let x = tensor(&[1.0, rank as f32]);
        x.requires_grad_(true).expect("it is a leaf");
        let weight = tensor(&[rank as f32 + 1.0; 2]);
        for (by, expected) in [(Reduction::Max, [2.5, 0.0, 10.0]), (Reduction::Min, [2.5, 10.0, 0.0])] {
            x.set_grad(None).expect("it is removed");
            let loss =
                collective::all_reduce(&x, by, group).and_then(|y| y.mul(&weight)).and_then(|y| y.sum()).unwrap();
            torchtpu_autograd::backward(&[loss], &[], None, false, None).expect("it has a gradient");
            let second = match rank {
                0 => expected[1],
                3 => expected[2],
                _ => 0.0,
            };
            let g = x.grad().expect("a gradient").to_vec::<f32>().unwrap();
            assert_eq!(g, [expected[0], second], "{by:?} on rank {rank}");
        }
    });
}

#[test]
fn functions_without_a_gradient_say_so() {
    on_ranks(PATIENT, |rank, group| {
        let x = tensor(&data(rank, 1));
        x.requires_grad_(true).expect("it is a leaf");
        let loss = collective::all_reduce(&x, Reduction::Product, group).and_then(|y| y.sum()).unwrap();
        let error = torchtpu_autograd::backward(&[loss], &[], None, false, None).expect_err("it has no gradient");
        assert_eq!(error.kind(), ErrorKind::NotImplemented);
        assert!(error.to_string().contains("all_reduce backward only supports"), "{error}");
    });
}

#[test]
fn mistakes_are_found_before_a_turn_is_taken() {
    on_ranks(PATIENT, |rank, group| {
        let (x, scalar) = (tensor(&data(rank, 3)), Tensor::from_slice_on(&[1f32], &[], Device::CPU).unwrap());
        // Only one rank makes them, and the others do not notice.
        if rank == 1 {
            let fails = |r: Result<Tensor>, kind, words: &str| {
                let e = r.expect_err(words);
                assert!(e.kind() == kind && e.to_string().contains(words), "{e}");
            };
            use ErrorKind::{Runtime, Value};
            fails(collective::reduce_scatter(&x, Reduction::Sum, group), Value, "must be a multiple of group_size 4");
            fails(collective::all_gather(&scalar, group), Runtime, "at least one dimension");
            fails(collective::broadcast(&x, 4, group), Value, "must be less than 4");
            fails(collective::all_reduce(&x, Reduction::Xor, group), Value, "Cannot use ReduceOp.BXOR");
            fails(collective::all_to_all(&x, &[1; 4], &[1; 4], group), Value, "doesn't match total dim 0 size");
            fails(collective::all_to_all(&x, &[3], &[3], group), Value, "Number of tensor splits");
            fails(collective::permute(&x, &[(0, 1), (0, 2)], group), Value, "a rank is in two pairs");
            let flags = Tensor::from_slice_on(&[true], &[1], Device::CPU).unwrap();
            fails(collective::mean(&flags, group), Value, "Boolean");
        }
        let y = collective::all_reduce(&scalar, Reduction::Sum, group).expect("the ranks agree");
        assert_eq!(y.to_vec::<f32>().unwrap(), [4.0]);
    });
}

#[test]
fn a_turn_that_is_given_up_ends_the_waits_of_all_ranks() {
    let errors = on_ranks(PATIENT, |rank, group| {
        let x = tensor(&data(rank, 2));
        if rank == 2 {
            let comm = torchtpu_tensor::comm::get().expect("a group is registered");
            let ticket = comm.reserve(group).expect("the group is whole");
            comm.give_up(ticket, &torchtpu_tensor::Error::runtime("the program did not compile"));
        }
        collective::all_reduce(&x, Reduction::Sum, group).expect_err("rank 2 gave up").to_string()
    });
    for error in errors {
        assert!(error.contains("the program did not compile"), "{error}");
    }
}

#[test]
fn a_turn_that_is_never_used_ends_in_a_timeout() {
    let network: Arc<dyn Network> = Arc::new(Memory::default());
    let store = Arc::new(torchtpu_distributed::store::HashStore::new());
    let limits = options(Duration::from_millis(100));
    let group = ProcessGroup::new(store, network, 0, 2, limits).expect("the group is made");
    group.reserve().expect("the group is whole");
    let error = group.barrier().expect_err("an earlier turn is open");
    assert_eq!(error.kind(), ErrorKind::DistBackend);
    assert!(error.to_string().contains("which was recorded and did not run"), "{error}");
}
