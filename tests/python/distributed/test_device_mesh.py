"""Device meshes of several processes."""

import pickle

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu.distributed._mesh_layout import _FlatLayout, _MeshLayout
from pytpu.distributed.device_mesh import DeviceMesh, _mesh_resources, init_device_mesh


def grid():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def describe_grid():
    mesh = grid()
    rank = dist.get_rank()
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=mesh.get_group("tp"))
    dp, tp = mesh["dp"], mesh["tp"]
    return {
        "shape": mesh.shape,
        "coordinate": mesh.get_coordinate(),
        "local": [mesh.get_local_rank("dp"), mesh.get_local_rank(1), tp.get_local_rank()],
        "groups": [dist.get_process_group_ranks(group) for group in mesh.get_all_groups()],
        "slices": [dp.mesh.tolist(), tp.mesh.tolist()],
        "sum": x.item(),
        "is_same_group": dp.get_group() is mesh.get_group(0),
        "root": tp._get_root_mesh() is mesh,
        "whole": mesh["dp", "tp"] is mesh,
    }


def test_a_mesh_has_groups_along_each_dimension(pools):
    for rank, got in enumerate(pools(4).run(describe_grid)):
        row, column = divmod(rank, 2)
        assert got == {
            "shape": (2, 2),
            "coordinate": (row, column),
            "local": [row, column, column],
            "groups": [[column, column + 2], [2 * row, 2 * row + 1]],
            "slices": [[column, column + 2], [2 * row, 2 * row + 1]],
            "sum": 4.0 * row + 1,
            "is_same_group": True,
            "root": True,
            "whole": True,
        }


def reshape_meshes():
    line = init_device_mesh("cpu", (4,), mesh_dim_names=("world",))
    apart = line._unflatten(0, (2, 2), ("dp", "tp"))
    mesh = grid()
    flat = mesh._flatten()
    again = mesh._flatten("dp_tp")
    joined = DeviceMesh._concatenate([mesh["dp"], mesh["tp"]])
    x = torch.tensor([1.0])
    dist.all_reduce(x, group=flat.get_group())
    with pytest.warns(UserWarning, match="Slicing a flattened dim"):
        sliced = mesh["dp_tp"]
    lines = [each.mesh.tolist() for each in mesh._get_all_submeshes("dp")]
    return (
        [apart.shape, apart["tp"].mesh.tolist(), apart.get_local_rank("dp")],
        [flat.shape, again is flat, sliced.shape, x.item()],
        [joined.shape, joined.mesh_dim_names, joined == mesh["dp", "tp"]],
        lines,
        [mesh._flatten_mapping["dp_tp"].mesh.tolist(), mesh.get_group("dp_tp").size()],
    )


def test_meshes_are_flattened_taken_apart_and_joined(pools):
    for rank, got in enumerate(pools(4).run(reshape_meshes)):
        row = rank // 2
        assert got == (
            [(2, 2), [2 * row, 2 * row + 1], row],
            [(4,), True, (4,), 4.0],
            [(2, 2), ("dp", "tp"), True],
            [[0, 2], [1, 3]],
            [[0, 1, 2, 3], 4],
        )


def compare_meshes():
    mesh = grid()
    other = DeviceMesh("cpu", torch.arange(4).view(2, 2), mesh_dim_names=("dp", "tp"))
    plain = DeviceMesh("cpu", [[0, 1], [2, 3]])
    copy = pickle.loads(pickle.dumps(mesh))
    from_groups = DeviceMesh.from_group(mesh.get_all_groups(), "cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
    from_world = DeviceMesh.from_group(dist.group.WORLD, "cpu")
    with mesh:
        inner = _mesh_resources.get_current_mesh() is mesh
    part = DeviceMesh("cpu", [1, 2])
    return (
        [mesh == other, hash(mesh) == hash(other), mesh == plain, mesh == copy, copy.get_group("tp").size()],
        [from_groups == mesh, from_groups.get_group("dp") is mesh.get_group("dp"), from_world.shape, inner],
        [part.get_coordinate(), part._is_current_rank_part_of_mesh()],
        [repr(mesh), repr(plain)],
    )


def test_meshes_are_compared_by_their_ranks_and_names(pools):
    for rank, got in enumerate(pools(4).run(compare_meshes)):
        at = {1: (0,), 2: (1,)}.get(rank)
        assert got == (
            [True, True, False, True, 2],
            [True, True, (4,), True],
            [at, at is not None],
            ["DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))", "DeviceMesh((2, 2), 'cpu', stride=(2, 1))"],
        )


def make_mistakes():
    mesh, plain = grid(), init_device_mesh("cpu", (2, 2))
    twice = {"mesh_dim_names": ("a", "a")}
    cases = [
        (RuntimeError, "Each mesh_dim_name must be unique", lambda: init_device_mesh("cpu", (2, 2), **twice)),
        (RuntimeError, "should have same length", lambda: init_device_mesh("cpu", (4,), mesh_dim_names=("a", "b"))),
        (RuntimeError, "Device type with index is not supported", lambda: init_device_mesh("tpu:0", (4,))),
        (RuntimeError, "Mesh should not be bigger than default world size 4", lambda: init_device_mesh("cpu", (8,))),
        (RuntimeError, "Cannot slice a DeviceMesh without mesh_dim_names", lambda: plain["dp"]),
        (KeyError, "Invalid mesh_dim_names", lambda: mesh["pp"]),
        (KeyError, "ascending order", lambda: mesh["tp", "dp"]),
        (KeyError, "No `mesh_dim_names` found", lambda: plain.get_group("dp")),
        (KeyError, "does not exist", lambda: mesh.get_group("pp")),
        (RuntimeError, "Optional kwarg `mesh_dim` needs to be specified", lambda: mesh.get_local_rank()),
        (RuntimeError, "Found the DeviceMesh have 2 dimensions", lambda: mesh.get_group()),
        (RuntimeError, "Cannot flatten a DeviceMesh without", lambda: plain._flatten()),
        (ValueError, "already exists for submesh", lambda: mesh._flatten("dp")),
        (RuntimeError, "Cannot concatenate overlapping", lambda: DeviceMesh._concatenate([mesh["dp"], mesh])),
        (ValueError, "These must be equal for unflatten", lambda: mesh._unflatten(0, (3,), ("a",))),
        (ValueError, "out of range", lambda: mesh._unflatten(2, (2,), ("a",))),
        (RuntimeError, "must have same length as mesh_sizes", lambda: mesh._unflatten(0, (2,), ("a", "b"))),
        (ValueError, "at least one ProcessGroup", lambda: DeviceMesh.from_group([], "cpu")),
        (ValueError, "Invalid mesh", lambda: DeviceMesh.from_group(dist.group.WORLD, "cpu", [0, 1])),
        (AssertionError, "more than once", lambda: DeviceMesh("cpu", [0, 0])),
        (TypeError, "The mesh argument is required", lambda: DeviceMesh("cpu")),
        (RuntimeError, "No device mesh is currently active", _mesh_resources.get_current_mesh),
    ]  # fmt: skip
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()


def test_mistakes_raise_pytorchs_errors(pools):
    pools(4).run(make_mistakes)


def test_layouts_are_indices():
    layout = _FlatLayout((2, 3), (6, 2))
    assert layout.all_ranks_from_zero() == [0, 2, 4, 6, 8, 10]
    assert (layout.shape, layout.stride) == ((6,), (2,))
    assert layout == _FlatLayout(6, 2) and hash(layout) == hash(_FlatLayout(6, 2))
    assert layout.complement(12) == _FlatLayout(2, 1)
    assert layout.global_ranks(12) == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 11]]
    assert list(_FlatLayout((2, 2), (4, 1)).sizes_and_strides) == [(2, 4), (2, 1)]
    assert not _FlatLayout((4, 2), (1, 1)).check_orthogonal()
    grid = _MeshLayout.from_sizes_strides((2, 4))
    assert grid.top_level_sizes == (2, 4)
    assert [axis.stride for axis in grid] == [(4,), (1,)]
    assert grid[1:] == _MeshLayout([_FlatLayout(4, 1)])
    assert grid.splice(0, 1, _MeshLayout([])) == grid[1:]
    assert grid.collapse() == _FlatLayout(8, 1)
    assert _FlatLayout(8, 1).composition(grid) == grid
    assert _MeshLayout([grid[0]]).remap_to_tensor(torch.arange(10, 18)).tolist() == [
        [10, 14], [11, 15], [12, 16], [13, 17],
    ]  # fmt: skip
    with pytest.raises(TypeError, match="shape must be a tuple or int"):
        _FlatLayout([2])
    for shape, stride in (((2, 3), (1,)), (6, (1,)), ((2, 3), 1), ((2, (3, 4)), ((2, 3), 4))):
        with pytest.raises(ValueError, match="don't match"):
            _FlatLayout(shape, stride)
    with pytest.raises(AssertionError, match="has no layout at the places of"):
        _FlatLayout((4, 2), (4, 1)).composition(_MeshLayout.from_sizes_strides((2,), (3,)))
    with pytest.raises(RuntimeError, match="never need to know the length"):
        len(layout)
