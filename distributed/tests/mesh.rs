//! Tests of device meshes, placements and specs.

use std::collections::BTreeSet;
use std::sync::Arc;
use torchtpu_distributed::ReduceOp;
use torchtpu_distributed::mesh::{DeviceMesh, FlatLayout, MeshLayout};
use torchtpu_distributed::placement::{Placement, local_shard_size_and_offset, pieces, text};
use torchtpu_distributed::spec::Spec;
use torchtpu_tensor::{DType, Device, ErrorKind, Meta};

fn mesh(sizes: &[usize], names: &[&str]) -> DeviceMesh {
    DeviceMesh::new((0..sizes.iter().product()).collect(), sizes, names).expect("a mesh")
}

#[test]
fn coordinates_and_groups_follow_the_array() {
    let cube = mesh(&[2, 3, 4], &["a", "b", "c"]);
    for rank in 0..24 {
        assert_eq!(cube.coordinate(rank), Some(vec![rank / 12, rank / 4 % 3, rank % 4]));
    }
    assert_eq!(cube.coordinate(24), None);
    assert_eq!(cube.groups(2)[1], [4, 5, 6, 7]);
    assert_eq!(cube.groups(0)[5], [5, 17]);
    let swapped = DeviceMesh::new(vec![3, 1, 2, 0], &[2, 2], &[]).unwrap();
    assert_eq!(swapped.coordinate(1), Some(vec![0, 1]));
    assert_eq!(swapped.groups(0), [[3, 2], [1, 0]]);
}

#[test]
fn slices_keep_the_rank_beside_its_neighbours() {
    let cube = mesh(&[2, 3, 4], &["a", "b", "c"]);
    for (names, dims) in [(&["a"][..], &[0][..]), (&["b"], &[1]), (&["a", "c"], &[0, 2]), (&["b", "c"], &[1, 2])] {
        let slice = cube.slice(names).unwrap();
        assert_eq!(slice.sizes(), dims.iter().map(|d| cube.sizes()[*d]).collect::<Vec<_>>());
        for rank in 0..24 {
            let (whole, part) = (cube.coordinate(rank).unwrap(), slice.coordinate(rank).unwrap());
            assert_eq!(part, dims.iter().map(|d| whole[*d]).collect::<Vec<_>>());
            // Ranks of the slice differ from this one along its dimensions only.
            for other in slice.ranks_with(rank).unwrap() {
                let other = cube.coordinate(other).unwrap();
                assert!((0..3).all(|d| dims.contains(&d) || other[d] == whole[d]));
            }
        }
    }
}

#[test]
fn flattened_slices_are_lines() {
    let cube = mesh(&[2, 2, 2], &["dp", "cp", "tp"]);
    let flat = cube.slice(&["dp", "cp"]).unwrap().flatten("dp_cp").unwrap();
    assert_eq!(flat.ranks_with(4), Some(vec![0, 2, 4, 6]));
    assert_eq!(flat.ranks_with(3), Some(vec![1, 3, 5, 7]));
    assert_eq!(flat.names(), ["dp_cp"]);
    let apart = cube.slice(&["dp", "tp"]).unwrap().flatten("dp_tp").unwrap();
    assert_eq!(apart.ranks_with(7), Some(vec![2, 3, 6, 7]));
    assert_eq!(apart.layout().dims()[0].parts(), [(2, 4), (2, 1)]);
    let both = DeviceMesh::concatenate(&[&cube.slice(&["dp"]).unwrap(), &cube.slice(&["tp"]).unwrap()]).unwrap();
    assert_eq!(both, cube.slice(&["dp", "tp"]).unwrap());
}

#[test]
fn a_dimension_is_taken_apart_into_factors() {
    let line = mesh(&[12], &["world"]);
    let grid = line.unflatten(0, &[2, 3, 2], &["a", "b", "c"]).unwrap();
    assert_eq!(grid, mesh(&[2, 3, 2], &["a", "b", "c"]));
    // A dimension of two parts, of which a factor has one and a half.
    let cube = mesh(&[2, 2, 4], &["a", "b", "c"]);
    let flat = cube.slice(&["a", "c"]).unwrap().flatten("ac").unwrap();
    let again = flat.unflatten(0, &[4, 2], &["x", "y"]).unwrap();
    assert_eq!(again.ranks_with(0), flat.ranks_with(0));
    assert_eq!(again.layout().dims()[0].parts(), [(2, 8), (2, 2)]);
    let e = line.unflatten(0, &[5, 2], &["a", "b"]).unwrap_err();
    assert!(e.message().starts_with("The product of mesh_sizes=(5, 2) is 10, but the original dimension"), "{e}");
}

#[test]
fn complements_fill_the_ranks() {
    for parts in [&[(2, 1)][..], &[(2, 4)], &[(4, 2)], &[(2, 8), (2, 1)], &[(2, 1), (2, 4)], &[]] {
        let layout = FlatLayout::new(parts.iter().copied());
        let (own, others) = (layout.indices(), layout.complement(16).indices());
        let all: BTreeSet<usize> = others.iter().flat_map(|o| own.iter().map(move |i| o + i)).collect();
        assert_eq!(own.len() * others.len(), 16, "{layout}");
        assert_eq!(all, (0..16).collect(), "{layout}");
    }
    assert_eq!(FlatLayout::new([(2, 4), (4, 1)]), FlatLayout::new([(8, 1)]));
    assert!(!FlatLayout::new([(4, 1), (2, 1)]).is_orthogonal());
    assert!(!FlatLayout::new([(2, 1), (2, 4)]).is_sorted());
    assert_eq!(MeshLayout::row_major(&[2, 1, 3]).cosize(), 6);
}

#[test]
fn mistakes_are_errors_in_the_words_of_pytorch() {
    let cube = mesh(&[2, 2, 2], &["dp", "cp", "tp"]);
    let key = |e: torchtpu_tensor::Error, text: &str| {
        assert_eq!(e.kind(), ErrorKind::Key);
        assert_eq!(e.message(), text);
    };
    key(
        cube.slice(&["tp", "dp"]).unwrap_err(),
        "Invalid mesh_dim_names ('tp', 'dp') specified. Mesh dim indices should be in ascending order.",
    );
    key(
        cube.slice(&["pp"]).unwrap_err(),
        "Invalid mesh_dim_names ('pp',) specified. Valid mesh_dim_names are ['dp', 'cp', 'tp'].",
    );
    key(
        cube.dim("pp").unwrap_err(),
        "Mesh dimension 'pp' does not exist. Available mesh dimensions are: mesh_dim_names=('dp', 'cp', 'tp')",
    );
    key(mesh(&[2], &[]).dim("x").unwrap_err(), "No `mesh_dim_names` found.");
    let e = DeviceMesh::concatenate(&[&cube.slice(&["dp"]).unwrap(), &cube]).unwrap_err();
    assert!(e.message().starts_with("Cannot concatenate overlapping meshes: "), "{e}");
    let e = DeviceMesh::concatenate(&[&cube, &mesh(&[2], &["x"])]).unwrap_err();
    assert_eq!(e.message(), "Cannot concatenate DeviceMeshes derived from different device meshes");
    assert!(DeviceMesh::new(vec![0, 1, 1, 2], &[2, 2], &[]).is_err());
    assert!(DeviceMesh::new(vec![0, 1, 2], &[2, 2], &[]).is_err());
    let e = DeviceMesh::new(vec![0, 1], &[2], &["a", "b"]).unwrap_err();
    assert!(e.message().starts_with("mesh_shape and mesh_dim_names should have same length!"), "{e}");
    let e = DeviceMesh::new(vec![0], &[1, 1], &["a", "a"]).unwrap_err();
    assert!(e.message().starts_with("Each mesh_dim_name must be unique."), "{e}");
}

#[test]
fn chunks_cover_a_dimension_once() {
    for (n, ranks, split) in [(8, 4, 1), (5, 4, 1), (1, 3, 1), (0, 2, 1), (10, 3, 2), (7, 2, 3), (2, 2, 4)] {
        let mut all: Vec<usize> = Vec::new();
        for i in 0..ranks {
            all.extend(pieces(n, split, ranks, i).iter().flat_map(|&(start, len)| start..start + len));
        }
        all.sort_unstable();
        assert_eq!(all, (0..n).collect::<Vec<_>>(), "{n} over {ranks} by {split}");
    }
    assert_eq!(pieces(8, 2, 2, 0), [(0, 2), (4, 2)]);
    assert_eq!(pieces(8, 2, 2, 1), [(2, 2), (6, 2)]);
    assert_eq!(local_shard_size_and_offset(10, 4, 3), (1, 9));
    assert_eq!(local_shard_size_and_offset(4, 3, 2), (0, 4));
}

#[test]
fn specs_say_what_each_rank_has() {
    let grid = Arc::new(mesh(&[2, 2], &["dp", "tp"]));
    let meta = Meta::new(&[8, 3], DType::F32, Device::META);
    let spec = |placements: &[Placement]| Spec::new(grid.clone(), placements.to_vec(), meta);
    // As PyTorch's FSDP2 with tensor parallelism: `tp` divides first.
    let strided = Placement::StridedShard { dim: 0, split_factor: 2 };
    let right_to_left = spec(&[strided, Placement::Shard(0)]).unwrap();
    let first = |s: &Spec| [[0, 0], [0, 1], [1, 0], [1, 1]].map(|c| s.local_pieces(&c)[0][0].0);
    assert_eq!(first(&right_to_left), [0, 4, 2, 6]);
    assert_eq!(first(&spec(&[Placement::Shard(0), Placement::Shard(0)]).unwrap()), [0, 2, 4, 6]);
    let uneven = spec(&[Placement::Shard(1), Placement::Shard(1)]).unwrap();
    assert_eq!([[0, 0], [0, 1], [1, 0], [1, 1]].map(|c| uneven.local_dims(&c)[1]), [1, 1, 1, 0]);
    assert_eq!(text(&right_to_left.placements), "_S(0, 2)S(0)");
    assert_eq!(
        spec(&[Placement::Partial(ReduceOp::Sum), Placement::Replicate]).unwrap().to_string(),
        "Spec(P(sum)R on (8, 3))"
    );
    assert!(spec(&[Placement::Shard(0)]).unwrap_err().message().contains("must have the same length"));
    assert!(spec(&[Placement::Shard(2), Placement::Replicate]).is_err());
}
