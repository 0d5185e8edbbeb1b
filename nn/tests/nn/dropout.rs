//! Tests of dropouts against numbers of PyTorch from the same seeds.

use crate::common::{close, ones, refused, turn};
use torchtpu::ErrorKind;
use torchtpu::nn::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout, Module};
use torchtpu::random::manual_seed;

/// A layer, the size of its input, and its output for ones.
type Drop = (Box<dyn Module>, &'static [usize], Vec<f64>);

#[test]
fn dropouts_drop_the_same_elements_as_pytorchs() {
    let _turn = turn();
    let (o, a, b) = (1.666667, -0.910642, 1.470377);
    let table: Vec<Drop> = vec![
        (Box::new(Dropout::new(0.4).unwrap()), &[2, 6], vec![0.0, o, o, o, o, 0.0, o, 0.0, 0.0, o, o, o]),
        (Box::new(Dropout1d::new(0.4).unwrap()), &[2, 3, 2], vec![0.0, 0.0, o, o, o, o, o, o, o, o, 0.0, 0.0]),
        (Box::new(Dropout1d::new(0.4).unwrap()), &[4, 2], vec![0.0, 0.0, o, o, o, o, o, o]),
        (Box::new(Dropout2d::new(0.4).unwrap()), &[2, 2, 2, 2], [[0.0; 4], [o; 4], [o; 4], [o; 4]].concat()),
        (Box::new(Dropout3d::new(0.4).unwrap()), &[3, 2, 1, 2], [[0.0; 4], [o; 4], [o; 4]].concat()),
        (Box::new(AlphaDropout::new(0.4).unwrap()), &[2, 6], vec![a, b, b, b, b, a, b, a, a, b, b, b]),
        (Box::new(FeatureAlphaDropout::new(0.4).unwrap()), &[2, 3, 2], vec![a, a, b, b, b, b, b, b, b, b, a, a]),
    ];
    let tpu = torchtpu::device("tpu").unwrap();
    for (m, dims, want) in &table {
        manual_seed(5);
        close(&m.forward(&ones(dims)).unwrap(), want);
        // The device draws its own numbers, so only check that each output is one of the two possible values.
        let y = m.forward(&ones(dims).to_device(tpu).unwrap()).unwrap();
        let two = [want.iter().copied().fold(f64::MAX, f64::min), want.iter().copied().fold(f64::MIN, f64::max)];
        assert!(y.to_vec::<f64>().unwrap().iter().all(|v| two.iter().any(|w| (v - w).abs() < 1e-5)), "{y:?}");
        m.eval();
        close(&m.forward(&ones(dims)).unwrap(), &vec![1.0; want.len()]);
    }
    refused(Dropout3d::new(-0.5), ErrorKind::Value, "dropout probability has to be between 0 and 1, but got -0.5");
    assert!(AlphaDropout::new(f64::NAN).is_err());
    refused(
        Dropout1d::default().forward(&ones(&[3])),
        ErrorKind::Runtime,
        "dropout1d: Expected 2D or 3D input, but received a 1D input. Note that dropout1d exists to provide \
        channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension \
        (i.e. 2D or 3D inputs).",
    );
}
