//! Tests of bilinear layers and distances against numbers of PyTorch from the same seeds.

use crate::common::{close, devices, names, randn, refused, turn};
use torchtpu::nn::{Bilinear, CosineSimilarity, Module, PairwiseDistance};
use torchtpu::random::manual_seed;
use torchtpu::{Backward, ErrorKind};

#[test]
fn bilinear_layers_and_distances_equal_pytorchs() {
    let _turn = turn();
    for device in devices() {
        manual_seed(1);
        let m = Bilinear::new(3, 2, 2, true).unwrap();
        m.to(device).unwrap();
        let (x, y) = (randn(&[4, 3]).to_device(device).unwrap(), randn(&[4, 2]).to_device(device).unwrap());
        let z = m.apply(&x, &y).unwrap();
        close(&z, &[1.322183, 0.009261, -1.198498, 0.111651, -1.47202, 0.209375, 0.209826, -0.046106]);
        z.square().unwrap().sum().unwrap().backward().unwrap();
        let g = m.weight.grad().unwrap();
        close(&g, &[1.817779, 0.904154, 4.568026, 8.654937, -9.501808, 11.442484, -0.202959, 0.152674]);
        assert_eq!(names(&m), ["weight", "bias"]);
        manual_seed(1);
        let (x, y) = (randn(&[2, 3]).to_device(device).unwrap(), randn(&[2, 3]).to_device(device).unwrap());
        close(&CosineSimilarity::default().forward(&x, &y).unwrap(), &[-0.721133, 0.075938]);
        let d = PairwiseDistance { p: 1.0, keepdim: true, ..PairwiseDistance::default() }.forward(&x, &y).unwrap();
        close(&d, &[3.388167, 1.732636]);
        assert_eq!(d.dims()[..], [2, 1]);
    }
    refused(Bilinear::new(0, 1, 1, true), ErrorKind::Value, "in1_features must be > 0, but got (in1_features=0)");
}
