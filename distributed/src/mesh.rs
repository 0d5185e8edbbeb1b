//! Device meshes: ranks as an array of any number of dimensions.
//!
//! A mesh keeps the ranks of the array that it was made from, and a [`MeshLayout`]: sizes and strides of indices into
//! them. So slices, flattened meshes and concatenations of slices share one list of ranks.
//!
//! ```
//! use torchtpu_distributed::mesh::DeviceMesh;
//!
//! let mesh = DeviceMesh::new((0..8).collect(), &[2, 4], &["dp", "tp"]).unwrap();
//! assert_eq!(mesh.coordinate(6), Some(vec![1, 2]));
//! assert_eq!(mesh.slice(&["dp"]).unwrap().ranks_with(6), Some(vec![2, 6]));
//! assert_eq!(mesh.groups(0), [[0, 4], [1, 5], [2, 6], [3, 7]]);
//! ```

use std::fmt;
use std::sync::Arc;
use torchtpu_tensor::{Error, ErrorKind, Result};

/// One dimension of a mesh: sizes and strides of indices, outermost first. Equal sets of indices in equal order have
/// equal layouts, because sizes of one are left out and neighbours that continue each other are joined.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlatLayout(Vec<(usize, usize)>);

impl FlatLayout {
    /// Return the layout with these sizes and strides, outermost first.
    pub fn new(parts: impl IntoIterator<Item = (usize, usize)>) -> FlatLayout {
        let mut joined: Vec<(usize, usize)> = Vec::new();
        for (size, stride) in parts.into_iter().filter(|(size, _)| *size != 1) {
            match joined.last_mut() {
                Some((n, s)) if *s == size * stride => (*n, *s) = (*n * size, stride),
                _ => joined.push((size, stride)),
            }
        }
        FlatLayout(joined)
    }

    /// Sizes and strides, outermost first.
    pub fn parts(&self) -> &[(usize, usize)] {
        &self.0
    }

    /// Number of indices.
    pub fn numel(&self) -> usize {
        self.0.iter().map(|(n, _)| n).product()
    }

    /// All indices in order.
    pub fn indices(&self) -> Vec<usize> {
        let mut indices = vec![0];
        for &(size, stride) in &self.0 {
            indices = indices.iter().flat_map(|at| (0..size).map(move |i| at + i * stride)).collect();
        }
        indices
    }

    /// Return the layout of the places that the indices of this one have to be moved to, so that together they are all
    /// of `n` indices.
    pub fn complement(&self, n: usize) -> FlatLayout {
        let mut parts = self.0.clone();
        parts.sort_by_key(|(_, stride)| *stride);
        let (mut rest, mut next) = (Vec::new(), 1);
        for (size, stride) in parts {
            rest.push((stride / next, next));
            next = size * stride;
        }
        rest.push((n.div_ceil(next), next));
        FlatLayout::new(rest.into_iter().rev())
    }

    /// Whether strides do not grow.
    pub fn is_sorted(&self) -> bool {
        self.0.is_sorted_by_key(|(_, stride)| std::cmp::Reverse(*stride))
    }

    /// Whether no index occurs twice, and each stride divides the greater ones.
    pub fn is_orthogonal(&self) -> bool {
        let mut parts = self.0.clone();
        parts.sort_by_key(|(_, stride)| *stride);
        parts.windows(2).all(|w| w[1].1.is_multiple_of((w[0].1 * w[0].0).max(1)))
    }

    /// Return the layout of the indices at the places that `layout` has.
    ///
    /// # Errors
    /// `Value` if they have no layout.
    pub fn composition(&self, layout: &MeshLayout) -> Result<MeshLayout> {
        let part = |d: &FlatLayout| -> Option<FlatLayout> {
            let parts: Option<Vec<FlatLayout>> = d.0.iter().map(|&(n, s)| self.every(n, s)).collect();
            Some(FlatLayout::new(parts?.into_iter().flat_map(|p| p.0)))
        };
        let parts: Option<Vec<FlatLayout>> = layout.0.iter().map(part).collect();
        parts.map(MeshLayout).ok_or_else(|| Error::value(format!("{self} has no layout at the places of {layout}")))
    }

    /// Return every `stride`-th index, `size` of them; `None` if they have no layout.
    fn every(&self, size: usize, stride: usize) -> Option<FlatLayout> {
        let (mut left, mut step, mut parts) = (size, stride, Vec::new());
        for (i, &(n, s)) in self.0.iter().enumerate().rev() {
            if i > 0 && step.is_multiple_of(n) {
                step /= n;
                continue;
            }
            let take = if i == 0 { left } else { (n.is_multiple_of(step)).then(|| left.min(n / step))? };
            if !left.is_multiple_of(take.max(1)) {
                return None;
            }
            parts.push((take, step * s));
            (left, step) = (left / take.max(1), 1);
        }
        (left <= 1).then(|| FlatLayout::new(parts.into_iter().rev()))
    }
}

/// The dimensions of a mesh.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MeshLayout(Vec<FlatLayout>);

impl MeshLayout {
    /// Return the layout with these dimensions.
    pub fn new(dims: Vec<FlatLayout>) -> MeshLayout {
        MeshLayout(dims)
    }

    /// Return the row-major layout of these sizes.
    pub fn row_major(sizes: &[usize]) -> MeshLayout {
        let mut stride = 1;
        let mut dims: Vec<FlatLayout> = Vec::with_capacity(sizes.len());
        for &size in sizes.iter().rev() {
            dims.push(FlatLayout::new([(size, stride)]));
            stride *= size;
        }
        dims.reverse();
        MeshLayout(dims)
    }

    /// The dimensions.
    pub fn dims(&self) -> &[FlatLayout] {
        &self.0
    }

    /// The size of each dimension.
    pub fn sizes(&self) -> Vec<usize> {
        self.0.iter().map(FlatLayout::numel).collect()
    }

    /// All dimensions as one.
    pub fn collapse(&self) -> FlatLayout {
        FlatLayout::new(self.0.iter().flat_map(|d| d.0.iter().copied()))
    }

    /// One more than the greatest index.
    pub fn cosize(&self) -> usize {
        1 + self.0.iter().flat_map(|d| &d.0).map(|(n, s)| n.saturating_sub(1) * s).sum::<usize>()
    }

    /// Return the dimension `dim` taken apart into dimensions of these sizes.
    ///
    /// # Errors
    /// `Value` if the sizes have another product.
    pub fn unflatten(&self, dim: usize, sizes: &[usize]) -> Result<MeshLayout> {
        let (whole, product) = (self.0[dim].numel(), sizes.iter().product::<usize>());
        if whole != product {
            let sizes = tuple(sizes.iter());
            return Err(Error::value(format!(
                "The product of mesh_sizes={sizes} is {product}, but the original dimension at dim={dim} has size \
                 {whole}. These must be equal for unflatten to work correctly."
            )));
        }
        let parts = self.0[dim].composition(&MeshLayout::row_major(sizes))?;
        let mut dims = self.0.clone();
        dims.splice(dim..=dim, parts.0);
        Ok(MeshLayout(dims))
    }
}

/// An array of ranks with names for its dimensions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DeviceMesh {
    layout: MeshLayout,
    ranks: Arc<[usize]>,
    names: Vec<String>,
}

impl DeviceMesh {
    /// Return the mesh of `ranks` in row-major order. `names` may be empty.
    ///
    /// # Errors
    /// `Runtime` if `names` has another length than `sizes` or a name twice, `Value` if the ranks do not fill the array
    /// or one occurs twice.
    pub fn new(ranks: Vec<usize>, sizes: &[usize], names: &[&str]) -> Result<DeviceMesh> {
        if ranks.len() != sizes.iter().product::<usize>() {
            return Err(Error::value(format!("a mesh of sizes {sizes:?} does not have {} ranks", ranks.len())));
        }
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        if let Some(w) = sorted.windows(2).find(|w| w[0] == w[1]) {
            return Err(Error::value(format!("rank {} occurs more than once in the mesh", w[0])));
        }
        DeviceMesh::with_layout(MeshLayout::row_major(sizes), ranks.into(), names.iter().map(ToString::to_string))
    }

    /// Return the mesh whose indices into `ranks` are those of a layout.
    ///
    /// # Errors
    /// `Runtime` if the names do not fit, `Value` if indices occur twice or are too large.
    pub fn with_layout(
        layout: MeshLayout,
        ranks: Arc<[usize]>,
        names: impl IntoIterator<Item = String>,
    ) -> Result<DeviceMesh> {
        let names: Vec<String> = names.into_iter().collect();
        if !names.is_empty() && names.len() != layout.0.len() {
            return Err(Error::runtime(format!(
                "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): {} and \
                 len(mesh_shape):{}.",
                names.len(),
                layout.0.len()
            )));
        }
        if (1..names.len()).any(|i| names[..i].contains(&names[i])) {
            return Err(Error::runtime(format!(
                "Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {}",
                quoted(&names)
            )));
        }
        if !layout.collapse().is_orthogonal() {
            return Err(Error::value("Please use a non-overlapping layout when creating a DeviceMesh."));
        }
        if ranks.len() < layout.cosize() {
            return Err(Error::value(format!(
                "The rank map contains {} element, which isn't large enough for layout {layout}",
                ranks.len()
            )));
        }
        Ok(DeviceMesh { layout, ranks, names })
    }

    /// The layout of the indices into [`DeviceMesh::rank_map`].
    pub fn layout(&self) -> &MeshLayout {
        &self.layout
    }

    /// The ranks of the mesh that this one was taken from, in row-major order.
    pub fn rank_map(&self) -> &[usize] {
        &self.ranks
    }

    /// Names of the dimensions; empty if they have none.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of dimensions.
    pub fn ndim(&self) -> usize {
        self.layout.0.len()
    }

    /// The size of each dimension.
    pub fn sizes(&self) -> Vec<usize> {
        self.layout.sizes()
    }

    /// Number of ranks.
    pub fn numel(&self) -> usize {
        self.layout.collapse().numel()
    }

    /// Return the position of a dimension's name.
    ///
    /// # Errors
    /// `Key` if no dimension has that name.
    pub fn dim(&self, name: &str) -> Result<usize> {
        if self.names.is_empty() {
            return Err(Error::new(ErrorKind::Key, "No `mesh_dim_names` found."));
        }
        self.names.iter().position(|n| n == name).ok_or_else(|| {
            let names = quoted(&self.names);
            Error::new(
                ErrorKind::Key,
                format!(
                    "Mesh dimension '{name}' does not exist. Available mesh dimensions are: mesh_dim_names={names}"
                ),
            )
        })
    }

    /// Return the mesh of some dimensions, in their order in this mesh.
    ///
    /// # Errors
    /// `Key` if a name is not that of a dimension, or the names are not in order.
    pub fn slice(&self, names: &[&str]) -> Result<DeviceMesh> {
        let invalid = |rest: String| {
            let names = quoted(names);
            Err(Error::new(ErrorKind::Key, format!("Invalid mesh_dim_names {names} specified. {rest}")))
        };
        let at: Option<Vec<usize>> = names.iter().map(|n| self.names.iter().position(|m| m == n)).collect();
        let Some(at) = at else {
            return invalid(format!("Valid mesh_dim_names are [{}].", list(&self.names)));
        };
        let layout = MeshLayout(at.iter().map(|&d| self.layout.0[d].clone()).collect());
        if !layout.collapse().is_sorted() {
            return invalid("Mesh dim indices should be in ascending order.".into());
        }
        if !layout.collapse().is_orthogonal() {
            let names = quoted(names);
            return Err(Error::runtime(format!("Slicing overlapping dim_names {names} is not allowed.")));
        }
        DeviceMesh::with_layout(layout, self.ranks.clone(), names.iter().map(ToString::to_string))
    }

    /// Return the mesh with one dimension, which has the ranks of all.
    ///
    /// # Errors
    /// None for a mesh that exists.
    pub fn flatten(&self, name: &str) -> Result<DeviceMesh> {
        let layout = MeshLayout(vec![self.layout.collapse()]);
        DeviceMesh::with_layout(layout, self.ranks.clone(), [name.to_string()])
    }

    /// Return the mesh with dimension `dim` taken apart.
    ///
    /// # Errors
    /// `Value` if `sizes` have another product than that dimension, `Runtime` if the names do not fit.
    pub fn unflatten(&self, dim: usize, sizes: &[usize], names: &[&str]) -> Result<DeviceMesh> {
        if sizes.len() != names.len() {
            return Err(Error::runtime("mesh_dim_names must have same length as mesh_sizes in _unflatten!"));
        }
        let layout = self.layout.unflatten(dim, sizes)?;
        let mut all = self.names.clone();
        if !all.is_empty() {
            all.splice(dim..=dim, names.iter().map(ToString::to_string));
        }
        DeviceMesh::with_layout(layout, self.ranks.clone(), all)
    }

    /// Return the mesh with the dimensions of all `meshes`, which must be parts of one mesh.
    ///
    /// # Errors
    /// `Runtime` if they are not, or overlap.
    pub fn concatenate(meshes: &[&DeviceMesh]) -> Result<DeviceMesh> {
        let Some(first) = meshes.first() else {
            return Err(Error::runtime("Cannot concatenate no DeviceMeshes"));
        };
        if meshes.iter().any(|m| m.ranks != first.ranks) {
            return Err(Error::runtime("Cannot concatenate DeviceMeshes derived from different device meshes"));
        }
        let layout = MeshLayout(meshes.iter().flat_map(|m| m.layout.0.iter().cloned()).collect());
        if !layout.collapse().is_orthogonal() {
            let meshes: Vec<String> = meshes.iter().map(ToString::to_string).collect();
            return Err(Error::runtime(format!("Cannot concatenate overlapping meshes: [{}]", meshes.join(", "))));
        }
        DeviceMesh::with_layout(layout, first.ranks.clone(), meshes.iter().flat_map(|m| m.names.iter().cloned()))
    }

    /// Return the ranks of every group along a dimension. Together they are all ranks of the map.
    pub fn groups(&self, dim: usize) -> Vec<Vec<usize>> {
        self.copies(&self.layout.0[dim])
    }

    /// Return the ranks, in row-major order, of the mesh with these sizes that `rank` is in. A slice stands for several
    /// meshes beside each other, one for each place along the other dimensions.
    pub fn ranks_with(&self, rank: usize) -> Option<Vec<usize>> {
        self.copies(&self.layout.collapse()).into_iter().find(|ranks| ranks.contains(&rank))
    }

    /// Return the position of a rank along each dimension; `None` if it is not in the mesh.
    pub fn coordinate(&self, rank: usize) -> Option<Vec<usize>> {
        let mut at = self.ranks_with(rank)?.iter().position(|r| *r == rank)?;
        let mut coordinate = self.sizes();
        for c in coordinate.iter_mut().rev() {
            let size = *c;
            (*c, at) = (at % size, at / size);
        }
        Some(coordinate)
    }

    fn copies(&self, layout: &FlatLayout) -> Vec<Vec<usize>> {
        let indices = layout.indices();
        let starts = layout.complement(self.ranks.len()).indices();
        starts.iter().map(|s| indices.iter().map(|i| self.ranks[s + i]).collect()).collect()
    }
}

/// Names as Python prints a list of them, without brackets.
fn list(names: &[impl AsRef<str>]) -> String {
    names.iter().map(|n| format!("'{}'", n.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Names as Python prints a tuple of them.
fn quoted(names: &[impl AsRef<str>]) -> String {
    format!("({}{})", list(names), if names.len() == 1 { "," } else { "" })
}

/// Numbers as Python prints a tuple of them.
fn tuple<'a>(items: impl Iterator<Item = &'a usize>) -> String {
    let items: Vec<String> = items.map(ToString::to_string).collect();
    format!("({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
}

/// Sizes and strides as PyTorch prints them, `(2, 4):(4, 1)`.
impl fmt::Display for FlatLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sizes, strides) = (tuple(self.0.iter().map(|p| &p.0)), tuple(self.0.iter().map(|p| &p.1)));
        write!(f, "{sizes}:{strides}")
    }
}

impl fmt::Display for MeshLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", dims.join(", "))
    }
}

/// Sizes of the dimensions by their names, `(dp=2, tp=4)`.
impl fmt::Display for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = self.sizes();
        if self.names.is_empty() {
            return write!(f, "{}", tuple(sizes.iter()));
        }
        let dims: Vec<String> = self.names.iter().zip(sizes).map(|(n, s)| format!("{n}={s}")).collect();
        write!(f, "({})", dims.join(", "))
    }
}
