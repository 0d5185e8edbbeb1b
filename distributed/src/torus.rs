//! Meshes on the torus of a machine: which rank has which place of a mesh, so that neighbors in the mesh are neighbors
//! on the links between chips.

use std::collections::BTreeMap;
use torchtpu_tensor::{Error, Result};

/// Return the rank at each place of a mesh of all ranks, row major, as [`arrange`] does. Ranks are in their order where
/// the plugin does not report coordinates. Makes the client of device `tpu`.
///
/// # Errors
/// `Value` if the mesh does not have `ranks` places. `Runtime` if no plugin can be loaded.
pub fn ranks(sizes: &[usize], ranks: usize) -> Result<Vec<usize>> {
    let mut coordinates = torchtpu_lazy::rank_coordinates()?.unwrap_or_default();
    // A plan may be for fewer ranks than the machine has devices.
    coordinates.truncate(ranks);
    if coordinates.len() < ranks {
        coordinates = (0..ranks as i64).map(|rank| vec![rank]).collect();
    }
    arrange(&coordinates, sizes)
}

/// A dimension of the machine that has more than one device: its place in coordinates, and its size.
#[derive(Clone, Copy)]
struct Axis {
    at: usize,
    size: usize,
}

/// Return the rank at each place of a mesh, row major. `coordinates` has those of each rank's device; the last one may
/// be the core on its chip.
///
/// If the dimensions of the machine can be shared out, so that the ones of each mesh dimension multiply to its size, a
/// mesh dimension has whole rings of links. Otherwise the mesh is filled row by row, and a mesh dimension has a box of
/// the machine where sizes allow it. Ranks whose devices do not fill a box are taken in the order of their coordinates.
///
/// # Errors
/// `Value` if the mesh does not have as many places as there are ranks, or if coordinates have different lengths or
/// occur more than once.
pub fn arrange(coordinates: &[Vec<i64>], sizes: &[usize]) -> Result<Vec<usize>> {
    let count = coordinates.len();
    if sizes.iter().try_fold(1_usize, |n, &size| n.checked_mul(size)) != Some(count) {
        return Err(Error::value(format!("a mesh of sizes {sizes:?} does not have {count} ranks")));
    }
    let ndim = coordinates.first().map_or(0, Vec::len);
    let ranks: BTreeMap<&[i64], usize> = coordinates.iter().enumerate().map(|(rank, c)| (&**c, rank)).collect();
    if ranks.len() < count || coordinates.iter().any(|c| c.len() != ndim) {
        return Err(Error::value(format!("two ranks have one device, or devices of two kinds: {coordinates:?}")));
    }
    let in_order = || ranks.values().copied().collect();
    let bounds: Vec<(i64, i64)> = (0..ndim)
        .map(|at| coordinates.iter().fold((i64::MAX, i64::MIN), |(low, high), c| (low.min(c[at]), high.max(c[at]))))
        .collect();
    let extents: Option<Vec<usize>> =
        bounds.iter().map(|(low, high)| usize::try_from(high.checked_sub(*low)?).ok()?.checked_add(1)).collect();
    let is_box = |extents: &Vec<usize>| extents.iter().try_fold(1_usize, |n, &size| n.checked_mul(size)) == Some(count);
    let Some(extents) = extents.filter(is_box) else { return Ok(in_order()) };
    let axes: Vec<Axis> =
        extents.iter().enumerate().filter(|(_, size)| **size > 1).map(|(at, &size)| Axis { at, size }).collect();
    let Some(shared) = share_out(&axes, sizes) else { return Ok(in_order()) };
    let at_place = |place: usize| {
        let mut place = place;
        let mut c: Vec<i64> = bounds.iter().map(|(low, _)| *low).collect();
        for axis in shared.iter().rev().flat_map(|axes| axes.iter().rev()) {
            c[axis.at] += (place % axis.size) as i64;
            place /= axis.size;
        }
        ranks[&*c]
    };
    Ok((0..count).map(at_place).collect())
}

/// Give each mesh dimension axes of the machine that multiply to its size, few where there is a choice, and use all
/// axes. Return `None` if that is not possible.
fn share_out(axes: &[Axis], sizes: &[usize]) -> Option<Vec<Vec<Axis>>> {
    let Some((&size, rest)) = sizes.split_first() else { return axes.is_empty().then(Vec::new) };
    let mut choices: Vec<u32> = (0..1_u32 << axes.len()).collect();
    choices.sort_by_key(|chosen| chosen.count_ones());
    choices.into_iter().find_map(|chosen| {
        let (own, others): (Vec<_>, Vec<_>) = axes.iter().enumerate().partition(|(i, _)| chosen >> i & 1 == 1);
        let axes_of = |of: Vec<(usize, &Axis)>| -> Vec<Axis> { of.into_iter().map(|(_, axis)| *axis).collect() };
        let own = axes_of(own);
        if own.iter().map(|axis| axis.size).product::<usize>() != size {
            return None;
        }
        let mut shared = vec![own];
        shared.extend(share_out(&axes_of(others), rest)?);
        Some(shared)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the coordinates of a box, in an order that is not its own.
    fn shuffled(extents: &[i64]) -> Vec<Vec<i64>> {
        let mut all = vec![vec![]];
        for &extent in extents {
            all = all.iter().flat_map(|c| (0..extent).map(move |i| [c.clone(), vec![i]].concat())).collect();
        }
        let count = all.len();
        // 7 has no factor in common with the counts of the tests.
        (0..count).map(|i| all[i * 7 % count].clone()).collect()
    }

    /// Return the axes of the machine along which each mesh dimension moves.
    fn moves(coordinates: &[Vec<i64>], sizes: &[usize]) -> Vec<Vec<usize>> {
        let ranks = arrange(coordinates, sizes).expect("the mesh fits");
        let mut all = ranks.clone();
        all.sort_unstable();
        assert_eq!(all, (0..coordinates.len()).collect::<Vec<_>>(), "each rank has a place");
        let mut stride = ranks.len();
        let first = &coordinates[ranks[0]];
        sizes
            .iter()
            .map(|&size| {
                stride /= size;
                let own: Vec<_> = (0..size).map(|i| &coordinates[ranks[i * stride]]).collect();
                (0..first.len()).filter(|&at| own.iter().any(|c| c[at] != first[at])).collect()
            })
            .collect()
    }

    #[test]
    fn mesh_dimensions_are_whole_dimensions_of_the_machine() {
        let none = Vec::<usize>::new;
        assert_eq!(moves(&shuffled(&[8, 8, 1]), &[8, 8]), [vec![0], vec![1]]);
        assert_eq!(moves(&shuffled(&[4, 4, 8]), &[8, 16]), [vec![2], vec![0, 1]]);
        assert_eq!(moves(&shuffled(&[4, 8, 2]), &[2, 1, 32]), [vec![2], none(), vec![0, 1]]);
        assert_eq!(moves(&shuffled(&[4, 4, 4]), &[64]), [vec![0, 1, 2]]);
        assert_eq!(moves(&shuffled(&[2, 2, 1, 2]), &[4, 2]), [vec![0, 1], vec![3]], "cores of a chip");
    }

    #[test]
    fn a_dimension_that_divides_the_machine_otherwise_has_a_box() {
        assert_eq!(moves(&shuffled(&[8, 8]), &[2, 32]), [vec![0], vec![0, 1]]);
        assert_eq!(moves(&shuffled(&[8, 8]), &[16, 4]), [vec![0, 1], vec![1]]);
    }

    #[test]
    fn ranks_that_fill_no_box_are_in_the_order_of_coordinates() {
        let coordinates = vec![vec![1, 1], vec![0, 1], vec![0, 0]];
        assert_eq!(arrange(&coordinates, &[3]).expect("the mesh fits"), [2, 1, 0]);
        let far = vec![vec![i64::MAX], vec![i64::MIN]];
        assert_eq!(arrange(&far, &[2]).expect("the mesh fits"), [1, 0]);
    }

    #[test]
    fn wrong_sizes_and_devices_are_refused() {
        let error = |c: &[Vec<i64>], sizes: &[usize]| arrange(c, sizes).expect_err("does not fit").to_string();
        assert!(error(&shuffled(&[2, 2]), &[3]).contains("a mesh of sizes [3] does not have 4 ranks"));
        assert!(error(&shuffled(&[2, 2]), &[usize::MAX, 2]).contains("does not have 4 ranks"));
        assert!(error(&[vec![0], vec![0]], &[2]).contains("two ranks have one device"));
        assert!(error(&[vec![0], vec![0, 1]], &[2]).contains("devices of two kinds"));
    }
}
