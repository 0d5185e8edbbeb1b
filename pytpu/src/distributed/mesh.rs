//! Layouts of device meshes: `torch.distributed._mesh_layout`.

use crate::enter::OrRaise;
use crate::tensor_type;
use pyo3::exceptions::{PyAssertionError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyTuple, PyType};
use std::hash::{DefaultHasher, Hash, Hasher};
use torchtpu_distributed::mesh::{FlatLayout, MeshLayout};

/// Return all integers of a tuple of integers and tuples, in order.
fn integers(o: &Bound<'_, PyAny>, what: &str, to: &mut Vec<usize>) -> PyResult<()> {
    if let Ok(tuple) = o.cast::<PyTuple>() {
        return tuple.iter().try_for_each(|item| integers(&item, what, to));
    }
    let Ok(one) = o.extract::<usize>() else {
        return Err(PyTypeError::new_err(format!("{what} must be a tuple or int, got {}", o.get_type().repr()?)));
    };
    to.push(one);
    Ok(())
}

/// Return whether two integers, or two tuples of integers and tuples, are nested in the same way.
fn are_nested_alike(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    match (a.cast::<PyTuple>(), b.cast::<PyTuple>()) {
        (Ok(a), Ok(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| are_nested_alike(&a, &b)),
        (a, b) => a.is_err() && b.is_err(),
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The class that a pickle calls, and its arguments.
type Reduced<'py> = (Bound<'py, PyType>, (Bound<'py, PyTuple>, Bound<'py, PyTuple>));

/// One dimension of a device mesh, as sizes and strides of indices into its ranks.
///
/// Equal indices in equal order have equal layouts: sizes of one are left out, and neighbors that continue each other
/// are joined.
///
/// Args:
///     shape: sizes, outermost first. Tuples in tuples count as one tuple.
///     stride: strides. The default is row major.
#[pyclass(frozen, from_py_object, name = "_FlatLayout", module = "pytpu.distributed._mesh_layout")]
#[derive(Clone)]
pub struct PyFlatLayout(FlatLayout);

#[pymethods]
impl PyFlatLayout {
    #[new]
    #[pyo3(signature = (shape, stride = None))]
    fn new(shape: &Bound<'_, PyAny>, stride: Option<&Bound<'_, PyAny>>) -> PyResult<PyFlatLayout> {
        let (mut sizes, mut strides) = (Vec::new(), Vec::new());
        integers(shape, "shape", &mut sizes)?;
        let Some(stride) = stride else { return Ok(PyFlatLayout(MeshLayout::row_major(&sizes).collapse())) };
        integers(stride, "stride", &mut strides)?;
        if !are_nested_alike(shape, stride) {
            let (shape, stride) = (shape.repr()?, stride.repr()?);
            return Err(PyValueError::new_err(format!("sizes {shape} and strides {stride} don't match")));
        }
        Ok(PyFlatLayout(FlatLayout::new(sizes.into_iter().zip(strides))))
    }

    /// The sizes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.parts().iter().map(|p| p.0))
    }

    /// The strides.
    #[getter]
    fn stride<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.parts().iter().map(|p| p.1))
    }

    /// Pairs of a size and a stride.
    #[getter]
    fn sizes_and_strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PyList::new(py, self.0.parts())?.call_method0("__iter__")
    }

    /// Return the number of indices.
    fn numel(&self) -> usize {
        self.0.numel()
    }

    /// Return the layout of the indices at the places of ``layout``.
    ///
    /// Raises:
    ///     AssertionError: if they have no layout.
    fn composition(&self, layout: &PyMeshLayout) -> PyResult<PyMeshLayout> {
        let composed = self.0.composition(&layout.0);
        composed.map(PyMeshLayout).map_err(|e| PyAssertionError::new_err(e.to_string()))
    }

    /// Return the layout of the places that this one is repeated at to fill ``world_size`` indices.
    fn complement(&self, world_size: usize) -> PyFlatLayout {
        PyFlatLayout(self.0.complement(world_size))
    }

    /// Return all indices in order.
    fn all_ranks_from_zero(&self) -> Vec<usize> {
        self.0.indices()
    }

    /// Return the indices of each repetition of this layout in ``world_size`` indices.
    fn global_ranks(&self, world_size: usize) -> Vec<Vec<usize>> {
        let own = self.0.indices();
        let starts = self.0.complement(world_size).indices();
        starts.iter().map(|s| own.iter().map(|i| s + i).collect()).collect()
    }

    /// Return whether strides do not grow.
    fn check_sorted(&self) -> bool {
        self.0.is_sorted()
    }

    /// Return whether no index occurs twice.
    fn check_orthogonal(&self) -> bool {
        self.0.is_orthogonal()
    }

    fn __len__(&self) -> PyResult<usize> {
        Err(PyRuntimeError::new_err(
            "You should never need to know the length of the internal representation of a FlatLayout",
        ))
    }

    fn __getitem__(&self, _i: &Bound<'_, PyAny>) -> PyResult<usize> {
        Err(PyRuntimeError::new_err("You should never need to index into the internal representation of a FlatLayout"))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyFlatLayout>().is_ok_and(|o| o.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("_FlatLayout(shape={}, stride={})", self.shape(py)?.repr()?, self.stride(py)?.repr()?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        Ok((py.get_type::<PyFlatLayout>(), (self.shape(py)?, self.stride(py)?)))
    }
}

/// The dimensions of a device mesh, each a `_FlatLayout`.
///
/// Args:
///     axes: the dimensions.
#[pyclass(frozen, from_py_object, name = "_MeshLayout", module = "pytpu.distributed._mesh_layout")]
#[derive(Clone)]
pub struct PyMeshLayout(MeshLayout);

#[pymethods]
impl PyMeshLayout {
    #[new]
    fn new(axes: Vec<PyFlatLayout>) -> PyMeshLayout {
        PyMeshLayout(MeshLayout::new(axes.into_iter().map(|a| a.0).collect()))
    }

    /// Return the layout with one size and one stride for each dimension. The default of ``strides`` is row major.
    #[classmethod]
    #[pyo3(signature = (sizes, strides = None))]
    fn from_sizes_strides(
        _cls: &Bound<'_, PyType>,
        sizes: Vec<usize>,
        strides: Option<Vec<usize>>,
    ) -> PyResult<PyMeshLayout> {
        let Some(strides) = strides else { return Ok(PyMeshLayout(MeshLayout::row_major(&sizes))) };
        if sizes.len() != strides.len() {
            return Err(PyValueError::new_err(format!(
                "sizes and strides must have the same length, got {} and {}",
                sizes.len(),
                strides.len()
            )));
        }
        let dims = sizes.into_iter().zip(strides).map(|p| FlatLayout::new([p]));
        Ok(PyMeshLayout(MeshLayout::new(dims.collect())))
    }

    /// The dimensions.
    #[getter]
    fn axes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.dims().iter().map(|d| PyFlatLayout(d.clone())))
    }

    /// The size of each dimension.
    #[getter]
    fn top_level_sizes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.sizes())
    }

    /// Return the number of indices.
    fn numel(&self) -> usize {
        self.0.sizes().iter().product()
    }

    /// Return one more than the greatest index.
    fn cosize(&self) -> usize {
        self.0.cosize()
    }

    /// Return all dimensions as one.
    fn collapse(&self) -> PyFlatLayout {
        PyFlatLayout(self.0.collapse())
    }

    /// Return this layout with the dimensions from ``start`` to ``end`` replaced by those of ``layout``.
    fn splice(&self, start: isize, end: isize, layout: &PyMeshLayout) -> PyMeshLayout {
        let n = self.0.dims().len() as isize;
        let place = |i: isize| (if i < 0 { i + n } else { i }).clamp(0, n) as usize;
        let (start, end) = (place(start), place(end));
        let mut dims = self.0.dims().to_vec();
        dims.splice(start..end.max(start), layout.0.dims().iter().cloned());
        PyMeshLayout(MeshLayout::new(dims))
    }

    /// Return the ranks of each mesh with this layout, as an array with a first dimension for the meshes.
    ///
    /// Args:
    ///     rank_map: the ranks that the layout has indices into, `(n,)`.
    fn remap_to_tensor<'py>(&self, py: Python<'py>, rank_map: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Some(ranks) = tensor_type::extract(rank_map).filter(|r| r.dims().len() == 1) else {
            return Err(PyTypeError::new_err("rank_map must be a tensor of one dimension"));
        };
        if ranks.numel() < self.0.cosize() {
            return Err(PyValueError::new_err(format!(
                "The rank map contains {} element, which isn't large enough for layout {}",
                ranks.numel(),
                self.0
            )));
        }
        let own = self.0.collapse();
        let places = own.complement(ranks.numel()).indices();
        // In the order of the dimensions, which that of the joined layout is too.
        let at: Vec<i64> = places.iter().flat_map(|s| own.indices().into_iter().map(move |i| (s + i) as i64)).collect();
        let sizes: Vec<i64> = [places.len()].into_iter().chain(self.0.sizes()).map(|n| n as i64).collect();
        let found = || {
            let at = torchtpu_tensor::Tensor::from_slice(&at, &[at.len()])?;
            ranks.index_select(0, &at)?.reshape(&sizes)
        };
        tensor_type::to_python(py, found().or_raise()?)
    }

    fn __len__(&self) -> usize {
        self.0.dims().len()
    }

    fn __getitem__<'py>(&self, i: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = i.py();
        let found = self.axes(py)?.as_any().get_item(i)?;
        if i.is_instance_of::<PySlice>() {
            return Ok(Bound::new(py, PyMeshLayout::new(found.extract()?))?.into_any());
        }
        Ok(found)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.axes(py)?.call_method0("__iter__")
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyMeshLayout>().is_ok_and(|o| o.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        hash(&self.0)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("_MeshLayout(axes={})", self.axes(py)?.repr()?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyTuple>,))> {
        Ok((py.get_type::<PyMeshLayout>(), (self.axes(py)?,)))
    }
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyFlatLayout>()?;
    m.add_class::<PyMeshLayout>()
}
