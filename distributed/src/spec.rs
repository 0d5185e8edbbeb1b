//! The description of a tensor that is divided over a mesh: [`Spec`].

use crate::mesh::DeviceMesh;
use crate::placement::{Placement, length, pieces, text};
use std::fmt;
use std::sync::Arc;
use torchtpu_tensor::{Dims, Error, Meta, Result};

/// A mesh, the placement of a tensor along each of its dimensions, and the description of the whole tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// The mesh.
    pub mesh: Arc<DeviceMesh>,
    /// A placement for each mesh dimension.
    pub placements: Vec<Placement>,
    /// The whole tensor.
    pub meta: Meta,
}

impl Spec {
    /// Return the description after a check.
    ///
    /// # Errors
    /// `Value` if the placements are not one for each mesh dimension, `Runtime` if the tensor lacks a dimension.
    pub fn new(mesh: Arc<DeviceMesh>, placements: Vec<Placement>, meta: Meta) -> Result<Spec> {
        if placements.len() != mesh.ndim() {
            return Err(Error::value(format!(
                "`placements` must have the same length as `device_mesh.ndim`! Found placements length: {}, and \
                 device_mesh.ndim: {}.",
                placements.len(),
                mesh.ndim()
            )));
        }
        for (dim, split_factor) in placements.iter().filter_map(|p| p.shard()) {
            if dim >= meta.dims.len() {
                return Err(Error::runtime(format!(
                    "Sharding dim {dim} greater than or equal to tensor ndim {}",
                    meta.dims.len()
                )));
            }
            if split_factor == 0 {
                return Err(Error::value("split_factor of a strided shard must be positive"));
            }
        }
        Ok(Spec { mesh, placements, meta })
    }

    /// Return the sizes that the rank at a coordinate of the mesh has.
    pub fn local_dims(&self, coordinate: &[usize]) -> Dims {
        local_dims(&self.meta.dims, &self.placements, &self.mesh.sizes(), coordinate)
    }

    /// Return the places of each dimension that the rank at a coordinate has, as first places and lengths, in the order
    /// of its elements.
    pub fn local_pieces(&self, coordinate: &[usize]) -> Vec<Vec<(usize, usize)>> {
        local_pieces(&self.meta.dims, &self.placements, &self.mesh.sizes(), coordinate)
    }

    /// Whether every rank has the whole tensor.
    pub fn is_replicated(&self) -> bool {
        self.placements.iter().all(|p| *p == Placement::Replicate)
    }
}

/// Return the sizes that the rank at a coordinate has of a tensor of sizes `dims`, over a mesh of these sizes.
pub fn local_dims(dims: &Dims, placements: &[Placement], mesh: &[usize], coordinate: &[usize]) -> Dims {
    let mut local = *dims;
    for (m, p) in placements.iter().enumerate() {
        if let Some((dim, split_factor)) = p.shard() {
            local.set(dim, length(&pieces(local[dim], split_factor, mesh[m], coordinate[m])));
        }
    }
    local
}

/// Return [`Spec::local_pieces`] of a tensor of sizes `dims`, over a mesh of these sizes.
pub fn local_pieces(
    dims: &Dims,
    placements: &[Placement],
    mesh: &[usize],
    coordinate: &[usize],
) -> Vec<Vec<(usize, usize)>> {
    let mut all: Vec<Vec<(usize, usize)>> = dims.iter().map(|&n| vec![(0, n)]).collect();
    for (m, p) in placements.iter().enumerate() {
        if let Some((dim, split_factor)) = p.shard() {
            let taken = pieces(length(&all[dim]), split_factor, mesh[m], coordinate[m]);
            all[dim] = select(&all[dim], &taken);
        }
    }
    all
}

/// The pieces `taken` of the sequence that `all` are pieces of.
fn select(all: &[(usize, usize)], taken: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut selected = Vec::new();
    for &(start, len) in taken {
        let mut before = 0;
        for &(first, n) in all {
            let (from, to) = (start.max(before), (start + len).min(before + n));
            if from < to {
                selected.push((first + from - before, to - from));
            }
            before += n;
        }
    }
    selected
}

/// PyTorch's text, `Spec(S(0)R on (2, 3))`.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.meta.dims.iter().map(ToString::to_string).collect();
        let comma = if sizes.len() == 1 { "," } else { "" };
        write!(f, "Spec({} on ({}{comma}))", text(&self.placements), sizes.join(", "))
    }
}
