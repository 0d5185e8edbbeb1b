//! Sharded tensors: the functions below `torch.distributed.tensor`.
//!
//! A placement is a tuple: `("R",)`, `("S", dim, split_factor)` or `("P", reduction)`, where a reduction is its number
//! in `torch.distributed.ReduceOp`.

use super::tensors::PyTensorGroup;
use crate::device::PyDevice;
use crate::enter::{self, OrRaise};
use crate::tensor_type;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::BTreeMap;
use std::sync::Arc;
use torchtpu_distributed::ReduceOp;
use torchtpu_distributed::mesh::DeviceMesh;
use torchtpu_distributed::placement::Placement;
use torchtpu_distributed::sharded::{self, Member};
use torchtpu_distributed::torus;
use torchtpu_tensor::Tensor;

/// A placement from Python.
struct Placed(Placement);

impl<'py> FromPyObject<'_, 'py> for Placed {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Placed> {
        let parts = given.cast::<PyTuple>()?;
        let kind: String = parts.get_item(0)?.extract()?;
        let number = |i: usize| parts.get_item(i)?.extract::<usize>();
        Ok(Placed(match kind.as_str() {
            "R" => Placement::Replicate,
            "S" => Placement::sharded(number(1)?, number(2)?),
            "P" => {
                let op = ReduceOp::ALL.get(number(1)?).copied();
                Placement::Partial(op.ok_or_else(|| PyValueError::new_err("there is no such reduction"))?)
            }
            _ => return Err(PyValueError::new_err(format!("there is no placement {kind}"))),
        }))
    }
}

fn unpacked(placements: Vec<Placed>) -> Vec<Placement> {
    placements.into_iter().map(|p| p.0).collect()
}

fn packed<'py>(py: Python<'py>, placement: &Placement) -> PyResult<Bound<'py, PyTuple>> {
    match placement {
        Placement::Replicate => PyTuple::new(py, ["R"]),
        Placement::Partial(op) => ("P", *op as usize).into_pyobject(py),
        Placement::Shard(dim) => ("S", *dim, 1).into_pyobject(py),
        Placement::StridedShard { dim, split_factor } => ("S", *dim, *split_factor).into_pyobject(py),
    }
}

fn tensor<'a>(o: &'a Bound<'_, PyAny>) -> PyResult<&'a Tensor> {
    let found = tensor_type::extract(o);
    found.ok_or_else(|| match o.get_type().name() {
        Ok(name) => PyTypeError::new_err(format!("expected a Tensor, not {name}")),
        Err(e) => e,
    })
}

fn member(number: u8) -> PyResult<Arc<Member>> {
    Member::numbered(number).or_raise()
}

/// Make sharded tensors possible on a mesh, and return its number. All processes of the mesh call this.
///
/// Args:
///     ranks: the ranks in row-major order.
///     sizes: the size of each dimension.
///     rank: the rank of this process.
///     groups: the group of this process along each dimension.
///     device: the device of the parts.
#[pyfunction]
fn _sharded_mesh(
    py: Python<'_>,
    ranks: Vec<usize>,
    sizes: Vec<usize>,
    rank: usize,
    groups: Vec<Bound<'_, PyTensorGroup>>,
    device: &PyDevice,
) -> PyResult<u8> {
    let groups = groups.iter().map(|g| g.get().0.clone()).collect();
    let local = device.present().or_raise()?;
    let make = || {
        let mesh = Arc::new(DeviceMesh::new(ranks, &sizes, &[])?);
        Member::new(mesh, rank, groups, local)
    };
    Ok(py.detach(make).or_raise()?.place.member)
}

/// Return the rank at each place of a mesh of all ranks that follows the links of the machine.
#[pyfunction]
fn _ranks_on_torus(py: Python<'_>, sizes: Vec<usize>, ranks: usize) -> PyResult<Vec<usize>> {
    py.detach(|| torus::ranks(&sizes, ranks)).or_raise()
}

/// Return the number of a sharded tensor's mesh and its placements, or ``None`` for another tensor.
#[pyfunction]
fn _sharded_spec<'py>(x: &Bound<'py, PyAny>) -> PyResult<Option<(u8, Bound<'py, PyTuple>)>> {
    let (py, t) = (x.py(), tensor(x)?);
    let Some(spec) = sharded::spec(t).or_raise()? else { return Ok(None) };
    let placements = spec.placements.iter().map(|p| packed(py, p)).collect::<PyResult<Vec<_>>>()?;
    Ok(Some((t.place().member, PyTuple::new(py, placements)?)))
}

/// Return the number of the first mesh with the same ranks and groups. Meshes differ in the device of their parts.
#[pyfunction]
fn _sharded_first(mesh: u8) -> PyResult<u8> {
    Ok(member(mesh)?.first().place.member)
}

/// Return the sharded tensor of sizes ``sizes`` whose part on this process is ``local``. ``gradient`` has the
/// placements whose part is the gradient of ``local``, and ``strides`` those of the whole.
#[pyfunction]
#[pyo3(signature = (local, mesh, placements, sizes, gradient = None, strides = None))]
fn _sharded_from_local<'py>(
    local: &Bound<'py, PyAny>,
    mesh: u8,
    placements: Vec<Placed>,
    sizes: Vec<usize>,
    gradient: Option<Vec<Placed>>,
    strides: Option<Vec<usize>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (gradient, strides, placed) = (gradient.map(unpacked), strides.unwrap_or_default(), unpacked(placements));
    let member = member(mesh)?;
    let y = sharded::from_local_with(&member, tensor(local)?, &placed, &sizes, &strides, gradient.as_deref());
    tensor_type::to_python(local.py(), y.or_raise()?)
}

/// Return the part of a sharded tensor on this process. ``gradient`` has the placements of its gradient.
#[pyfunction]
#[pyo3(signature = (x, gradient = None))]
fn _sharded_to_local<'py>(x: &Bound<'py, PyAny>, gradient: Option<Vec<Placed>>) -> PyResult<Bound<'py, PyAny>> {
    let y = sharded::to_local(tensor(x)?, gradient.map(unpacked).as_deref());
    tensor_type::to_python(x.py(), y.or_raise()?)
}

/// Return a sharded tensor with other placements.
#[pyfunction]
fn _sharded_redistribute<'py>(x: &Bound<'py, PyAny>, placements: Vec<Placed>) -> PyResult<Bound<'py, PyAny>> {
    let (py, x, placements) = (x.py(), tensor(x)?.clone(), unpacked(placements));
    let y = enter::without_gil(|| sharded::redistribute(&x, &placements));
    tensor_type::to_python(py, y.or_raise()?)
}

/// Return the sharded tensor of a whole one on the first process of the mesh.
#[pyfunction]
fn _sharded_distribute<'py>(x: &Bound<'py, PyAny>, mesh: u8, placements: Vec<Placed>) -> PyResult<Bound<'py, PyAny>> {
    let (py, x, placements, member) = (x.py(), tensor(x)?.clone(), unpacked(placements), member(mesh)?);
    let y = enter::without_gil(|| sharded::distribute(&member, &x, &placements));
    tensor_type::to_python(py, y.or_raise()?)
}

/// Return counts of this process: ops that ran on parts, those without a rule, and bytes sent to redistribute.
#[pyfunction]
fn _sharded_counts() -> BTreeMap<&'static str, u64> {
    let counts = sharded::counts();
    BTreeMap::from([("calls", counts.calls), ("without_rule", counts.without_rule), ("bytes", counts.bytes)])
}

/// Return the numbers of calls without a rule by the names of their ops.
#[pyfunction]
fn _sharded_without_rule() -> BTreeMap<&'static str, u64> {
    sharded::without_rule()
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_sharded_mesh, m)?)?;
    m.add_function(wrap_pyfunction!(_sharded_first, m)?)?;
    m.add_function(wrap_pyfunction!(_ranks_on_torus, m)?)?;
    m.add_function(wrap_pyfunction!(_sharded_spec, m)?)?;
    m.add_function(wrap_pyfunction!(_sharded_from_local, m)?)?;
    m.add_function(wrap_pyfunction!(_sharded_to_local, m)?)?;
    m.add_function(wrap_pyfunction!(_sharded_redistribute, m)?)?;
    m.add_function(wrap_pyfunction!(_sharded_distribute, m)?)?;
    m.add_function(wrap_pyfunction!(_sharded_counts, m)?)?;
    m.add_function(wrap_pyfunction!(_sharded_without_rule, m)?)
}
