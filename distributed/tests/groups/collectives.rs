//! Results of every collective against plain loops.

use crate::ranks::{PATIENT, networks, run};
use std::sync::Arc;
use torchtpu_distributed::transport::Network;
use torchtpu_distributed::{Op, ProcessGroup, ReduceOp, Request};
use torchtpu_tensor::{DType, bf16, f16};

/// Return element `i` of a rank: 1, 2 or 3, so that products of five ranks are exact in every dtype.
fn value(rank: usize, i: usize) -> i64 {
    ((rank * 5 + i * 7 + i / 3) % 3) as i64 + 1
}

fn encode(dtype: DType, v: f64) -> Vec<u8> {
    let int = v as i64;
    match dtype {
        DType::Bool => vec![u8::from(int % 2 != 0)],
        DType::U8 | DType::I8 => vec![int as u8],
        DType::I16 => (int as i16).to_le_bytes().to_vec(),
        DType::I32 => (int as i32).to_le_bytes().to_vec(),
        DType::I64 => int.to_le_bytes().to_vec(),
        DType::F16 => f16::from_f32(v as f32).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f32(v as f32).to_le_bytes().to_vec(),
        DType::F32 => (v as f32).to_le_bytes().to_vec(),
        DType::F64 => v.to_le_bytes().to_vec(),
        // The imaginary part is twice the real one.
        DType::C64 => [(v as f32).to_le_bytes(), (2.0 * v as f32).to_le_bytes()].concat(),
        DType::C128 => [v.to_le_bytes(), (2.0 * v).to_le_bytes()].concat(),
        d => panic!("no reductions of {}", d.name()),
    }
}

fn numbers(dtype: DType, values: impl Iterator<Item = i64>) -> Vec<u8> {
    values.flat_map(|v| encode(dtype, v as f64)).collect()
}

fn data(dtype: DType, rank: usize, count: usize) -> Vec<u8> {
    numbers(dtype, (0..count).map(|i| value(rank, i)))
}

/// Combine element `i` of all ranks in a loop.
fn reduced(op: ReduceOp, dtype: DType, size: usize, i: usize) -> Vec<u8> {
    let values = (0..size).map(|rank| value(rank, i));
    if dtype == DType::Bool {
        let mut bits = values.map(|v| v % 2);
        let all = match op {
            ReduceOp::Product | ReduceOp::Min | ReduceOp::BAnd => bits.all(|b| b == 1).into(),
            ReduceOp::BXor => bits.fold(0, |a, b| a ^ b),
            _ => bits.any(|b| b == 1).into(),
        };
        return encode(dtype, all as f64);
    }
    let sum: i64 = values.clone().sum();
    let result = match op {
        ReduceOp::Sum => sum as f64,
        ReduceOp::Avg if dtype.is_int() => (sum / size as i64) as f64,
        ReduceOp::Avg if matches!(dtype, DType::F64 | DType::C128) => sum as f64 / size as f64,
        ReduceOp::Avg => f64::from(sum as f32 / size as f32),
        ReduceOp::Product => values.product::<i64>() as f64,
        ReduceOp::Min => values.min().expect("there is a rank") as f64,
        ReduceOp::Max => values.max().expect("there is a rank") as f64,
        ReduceOp::BAnd => values.reduce(|a, b| a & b).expect("there is a rank") as f64,
        ReduceOp::BOr => values.reduce(|a, b| a | b).expect("there is a rank") as f64,
        ReduceOp::BXor => values.reduce(|a, b| a ^ b).expect("there is a rank") as f64,
    };
    encode(dtype, result)
}

fn is_defined(op: ReduceOp, dtype: DType) -> bool {
    torchtpu_distributed::Combine::new(op, dtype).is_ok()
}

fn all_reductions(group: &ProcessGroup, dtype: DType, op: ReduceOp, count: usize) {
    let (rank, size) = (group.rank(), group.size());
    let what = format!("{op:?} of {count} {dtype:?}, rank {rank} of {size}");
    let expected: Vec<u8> = (0..count).flat_map(|i| reduced(op, dtype, size, i)).collect();

    let mut x = data(dtype, rank, count);
    group.run(&Request::new(Op::AllReduce(op), dtype, &[count]), &[], &mut x).expect(&what);
    assert!(x == expected, "all_reduce: {what}");

    let root = count % size;
    let mut x = data(dtype, rank, count);
    group.run(&Request::new(Op::Reduce(op, root), dtype, &[count]), &[], &mut x).expect(&what);
    assert!(rank != root || x == expected, "reduce: {what}");

    let x = data(dtype, rank, count * size);
    let mut part = vec![0; count * dtype.size_bytes()];
    group.run(&Request::new(Op::ReduceScatter(op), dtype, &[count]), &x, &mut part).expect(&what);
    let expected: Vec<u8> = (rank * count..(rank + 1) * count).flat_map(|i| reduced(op, dtype, size, i)).collect();
    assert!(part == expected, "reduce_scatter: {what}");
}

fn all_moves(group: &ProcessGroup, dtype: DType, count: usize) {
    let (rank, size, bytes) = (group.rank(), group.size(), count * dtype.size_bytes());
    let what = format!("{count} {dtype:?}, rank {rank} of {size}");
    let everything: Vec<u8> = (0..size).flat_map(|r| data(dtype, r, count)).collect();
    let own = data(dtype, rank, count);
    let run = |op: Op, input: &[u8], output: &mut [u8]| {
        group.run(&Request::new(op, dtype, &[count]), input, output).expect(&what);
    };
    for root in 0..size {
        let mut x = own.clone();
        run(Op::Broadcast { root }, &[], &mut x);
        assert!(x == data(dtype, root, count), "broadcast from {root}: {what}");

        let mut gathered = vec![0; if rank == root { bytes * size } else { 0 }];
        run(Op::Gather { root }, &own, &mut gathered);
        assert!(rank != root || gathered == everything, "gather to {root}: {what}");

        let mut part = vec![0; bytes];
        run(Op::Scatter { root }, if rank == root { &everything } else { &[] }, &mut part);
        assert!(part == own, "scatter from {root}: {what}");
    }
    let mut gathered = vec![0; bytes * size];
    run(Op::AllGather, &own, &mut gathered);
    assert!(gathered == everything, "all_gather: {what}");

    // Rank `r` sends `r + k` rows to rank `k`.
    let rows = |from: usize, to: usize| from + to;
    let sent: Vec<usize> = (0..size).map(|to| rows(rank, to)).collect();
    let received: Vec<usize> = (0..size).map(|from| rows(from, rank)).collect();
    let row = |from: usize, to: usize| numbers(dtype, (0..rows(from, to) * count).map(|i| value(from * 11 + to, i)));
    let input: Vec<u8> = (0..size).flat_map(|to| row(rank, to)).collect();
    let expected: Vec<u8> = (0..size).flat_map(|from| row(from, rank)).collect();
    let mut output = vec![0; expected.len()];
    let shape = [sent.iter().sum(), count];
    group.run(&Request::new(Op::AllToAll { sent, received }, dtype, &shape), &input, &mut output).expect(&what);
    assert!(output == expected, "all_to_all: {what}");
    group.barrier().expect(&what);
}

fn every_op_and_dtype(network: &Arc<dyn Network>, sizes: &[usize], counts: &[usize]) {
    for &size in sizes {
        run(network, size, PATIENT, |group| {
            for dtype in DType::FULL {
                for &count in counts {
                    for op in ReduceOp::ALL.into_iter().filter(|&op| is_defined(op, dtype)) {
                        all_reductions(group, dtype, op, count);
                    }
                    all_moves(group, dtype, count);
                }
            }
        });
    }
}

#[test]
fn every_op_and_dtype_in_memory() {
    every_op_and_dtype(&networks()[0].1, &[1, 2, 3, 4, 5], &[0, 1, 7, 130]);
}

#[test]
fn every_op_and_dtype_over_shared_memory() {
    every_op_and_dtype(&networks()[1].1, &[2, 3, 5], &[0, 7]);
}

#[test]
fn every_op_and_dtype_over_tcp() {
    every_op_and_dtype(&networks()[2].1, &[2, 4], &[0, 7]);
}

#[test]
fn large_payloads_over_every_network() {
    for (_, network) in &networks()[..3] {
        // Beyond the limits between algorithms, and not a multiple of the chunks.
        for (size, count) in [(2, 150_001), (3, 40_003), (4, 9_001)] {
            run(network, size, PATIENT, |group| all_reductions(group, DType::F64, ReduceOp::Sum, count));
        }
        for size in [2, 3] {
            run(network, size, PATIENT, |group| all_moves(group, DType::C128, 20_001));
        }
    }
}

#[test]
fn all_ranks_get_the_same_bits_in_each_run() {
    // Sums of these numbers depend on their order.
    let number =
        |rank: usize, i: usize| ((rank * 7919 + i * 104_729) % 1000) as f32 * 1e-3 + 1e4 / (i + rank + 1) as f32;
    for size in [2, 3, 4, 5] {
        for count in [3, 40_000, 300_000] {
            let sums = || {
                run(&networks()[1].1, size, PATIENT, |group| {
                    let mut x: Vec<u8> = (0..count).flat_map(|i| number(group.rank(), i).to_le_bytes()).collect();
                    let request = Request::new(Op::AllReduce(ReduceOp::Sum), DType::F32, &[count]);
                    group.run(&request, &[], &mut x).expect("the sum is computed");
                    x
                })
            };
            let (first, second) = (sums(), sums());
            assert!(first.iter().chain(&second).all(|x| *x == first[0]), "{size} ranks, {count} numbers");
        }
    }
}

#[test]
fn small_sums_of_16_bit_floats_are_rounded_once() {
    let (_, network) = &networks()[0];
    let halves = |v: f32| f16::from_f32(v).to_le_bytes();
    let results = run(network, 4, PATIENT, |group| {
        let mut output = halves(if group.rank() == 0 { 2048.0 } else { 1.0 });
        let request = Request::new(Op::AllReduce(ReduceOp::Sum), DType::F16, &[1]);
        group.run(&request, &[], &mut output).expect("all ranks come");
        output
    });
    // The sum is 2051. Rounded after each operand, it would be 2050.
    assert_eq!(results, [halves(2052.0); 4]);
}

#[test]
fn not_a_number_has_the_same_bits_on_all_ranks() {
    let sums = run(&networks()[1].1, 2, PATIENT, |group| {
        let nan = f32::from_bits(0x7fc0_0000 + 1 + group.rank() as u32);
        let mut x = nan.to_le_bytes().repeat(70);
        let request = Request::new(Op::AllReduce(ReduceOp::Max), DType::F32, &[70]);
        group.run(&request, &[], &mut x).expect("the maximum is computed");
        x
    });
    assert_eq!(sums[0], sums[1]);
}

#[test]
fn work_that_is_not_waited_for_runs_in_order() {
    for (_, network) in networks() {
        run(&network, 3, PATIENT, |group| {
            let sum = |v: u8| {
                let request = Request::new(Op::AllReduce(ReduceOp::Sum), DType::U8, &[1]);
                group.start(request, None, Box::new(vec![v])).expect("the work starts")
            };
            let works: Vec<_> = (0..20).map(sum).collect();
            // A call that waits comes after them.
            group.barrier().expect("all ranks come");
            for (i, work) in works.iter().enumerate() {
                assert!(work.is_completed());
                work.wait(None).expect("the sum is computed");
                assert!(work.exception().is_none());
                assert_eq!(work.result().expect("the first call gets the output").bytes(), [3 * i as u8]);
            }
            assert_eq!(group.sequence(), 21);
        });
    }
}

#[test]
fn subgroups_work_beside_their_parent() {
    for (name, network) in networks() {
        let sums = run(&network, 5, PATIENT, |group| {
            let halves = group.split_group(&[vec![0, 2, 4], vec![3, 1]], None).expect("the lists agree");
            let half = halves.expect("each rank is in a list");
            let sum = |group: &ProcessGroup| {
                let mut x = [1 << group.ranks()[group.rank()]];
                let request = Request::new(Op::AllReduce(ReduceOp::Sum), DType::U8, &[1]);
                group.run(&request, &[], &mut x).expect("the sum is computed");
                x[0]
            };
            let third = group.new_group(&[1, 2], None).expect("the lists agree");
            (
                half.name().to_string(),
                half.rank(),
                sum(&half),
                third.map(|g| (g.name().to_string(), sum(&g))),
                sum(group),
            )
        });
        let even = |rank| ("0.0.0".to_string(), rank, 0b10101, None, 0b11111);
        let odd = |rank| ("0.0.1".to_string(), rank, 0b01010, None, 0b11111);
        let third = Some(("0.1.0".to_string(), 0b00110));
        let (mut one, mut two) = (odd(1), even(1));
        (one.3, two.3) = (third.clone(), third);
        assert_eq!(sums, [even(0), one, two, odd(0), even(2)], "{name}");
    }
}
