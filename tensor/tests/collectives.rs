//! The spelling of collectives for compilers.

use torchtpu_stablehlo::{Func, Profile, Type};
use torchtpu_tensor::comm::Group;
use torchtpu_tensor::op::Prim;
use torchtpu_tensor::ops::collective::{Collective, Kind, Reduction};
use torchtpu_tensor::{DType, Device, Meta, meta::element_type};

/// Return the program of some collectives, one after the other.
fn text(profile: &Profile, partition: &[Vec<usize>], dtype: DType, kinds: &[Kind]) -> String {
    let mut f = Func::with_profile(profile);
    let mut x = f.arg(Type::new(&[4, 2], element_type(dtype)));
    let ticket = f.arg(Type::new(&[], element_type(DType::I64)));
    for kind in kinds {
        let mut dims = x.shape().to_vec();
        match kind {
            Kind::AllGather => dims[0] *= partition[0].len(),
            Kind::ReduceScatter(_) => dims[0] /= partition[0].len(),
            _ => {}
        }
        let y = Meta::new(&dims, dtype, Device::TPU);
        let op = Collective { kind: kind.clone(), group: Group::new(1, partition.to_vec()) };
        x = Prim::Collective(Box::new(op)).lower(&mut f, &[x, ticket.clone()], &[y]).remove(0);
    }
    f.finish("collectives", &[x])
}

fn pairs() -> Vec<Vec<usize>> {
    vec![vec![0, 2], vec![1, 3]]
}

#[test]
fn xla_cpu_calls_are_chained_and_have_effects() {
    let kinds = [Kind::AllReduce(Reduction::Sum), Kind::AllGather, Kind::Broadcast { from: 1 }];
    let text = text(&Profile::XLA_CPU, &pairs(), DType::F32, &kinds);
    let calls: Vec<&str> = text.lines().filter(|l| l.contains("custom_call")).collect();
    assert_eq!(calls.len(), 3);
    for (call, words) in calls.iter().zip([
        "@\"torchtpu.collective\"(%a0, %a1, %0) {",
        "@\"torchtpu.collective\"(%1, %a1, %2) {",
        "@\"torchtpu.collective\"(%3, %a1, %4) {",
    ]) {
        assert!(call.contains(words) && call.contains("has_side_effect = true"), "{words} is not in {call}");
    }
    assert!(calls[0].contains("kernel = \"all_reduce\", numbers = array<i64: 0>"), "{}", calls[0]);
    assert!(calls[1].contains("kernel = \"all_gather\", numbers = array<i64>"), "{}", calls[1]);
    // The caller keeps the argument. Later values may be overwritten.
    assert!(calls[0].contains("output_operand_aliases = []") && calls[2].contains("operand_index = 0"), "{text}");
    assert!(!text.contains("replica"), "{text}");
}

#[test]
fn groups_of_one_partition_have_one_program() {
    let kinds = [Kind::AllReduce(Reduction::Max)];
    assert_eq!(
        text(&Profile::XLA_CPU, &pairs(), DType::F32, &kinds),
        text(&Profile::XLA_CPU, &[vec![5, 7]], DType::F32, &kinds)
    );
    let [first, second] = [1, 2].map(|number| Group::new(number, pairs()));
    assert_eq!(first, second);
    assert_ne!(first, Group::new(1, vec![vec![0, 1], vec![2, 3]]));
}

#[test]
fn groups_of_one_rank_need_no_collective() {
    for profile in [&Profile::XLA_CPU, &Profile::UNKNOWN] {
        let kinds = [Kind::AllReduce(Reduction::Sum), Kind::AllGather, Kind::ReduceScatter(Reduction::Sum)];
        let text = text(profile, &[vec![0]], DType::F32, &kinds);
        assert!(text.contains("return %a0"), "{text}");
    }
}

#[test]
fn accelerators_get_collectives_of_stablehlo() {
    let groups = "replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>";
    let one = |kind: Kind| text(&Profile::UNKNOWN, &pairs(), DType::BF16, &[kind]);
    for (kind, words) in [
        (Kind::AllReduce(Reduction::Sum), "\"stablehlo.all_reduce\"(%a0)"),
        (Kind::AllReduce(Reduction::Min), "= stablehlo.minimum"),
        (Kind::AllGather, "\"stablehlo.all_gather\"(%a0) <{all_gather_dim = 0 : i64"),
        (Kind::ReduceScatter(Reduction::Sum), "scatter_dimension = 0 : i64}>"),
        (Kind::AllToAll { sent: vec![2, 2], received: vec![2, 2] }, "split_count = 2 : i64, split_dimension = 0 : i64"),
        (Kind::Reduce { by: Reduction::Product, to: 1 }, "stablehlo.replica_id"),
    ] {
        let text = one(kind);
        assert!(text.contains(groups) && text.contains(words), "{words} is not in:\n{text}");
    }
    let permuted = one(Kind::Permute { pairs: vec![(0, 1), (1, 0)] });
    let pairs = "source_target_pairs = dense<[[0, 2], [2, 0], [1, 3], [3, 1]]> : tensor<4x2xi64>";
    assert!(permuted.contains(pairs), "{permuted}");
}

#[test]
fn broadcasts_add_bits_to_zeros() {
    let one = |dtype| text(&Profile::UNKNOWN, &pairs(), dtype, &[Kind::Broadcast { from: 1 }]);
    let text = one(DType::F32);
    // The sources are global ranks 2 and 3.
    assert!(text.contains("dense<2> : tensor<ui32>") && text.contains("dense<3> : tensor<ui32>"), "{text}");
    assert!(text.contains("(tensor<4x2xui32>) -> tensor<4x2xui32>"), "{text}");
    assert_eq!(one(DType::C64).matches("\"stablehlo.all_reduce\"").count(), 2);
    assert!(!one(DType::I64).contains("bitcast"));
}
