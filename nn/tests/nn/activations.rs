//! Tests of activations and their trained or random slopes against numbers of PyTorch from the same seeds.

use crate::common::{close, devices, names, ones, randn, refused, turn};
use torchtpu::nn::{
    CELU, ELU, GELU, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish,
    Module, PReLU, RReLU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softmax2d, Softmin, Softplus, Softshrink,
    Softsign, Tanh, Tanhshrink, Threshold,
};
use torchtpu::random::manual_seed;
use torchtpu::{Backward, Device, ErrorKind, Tensor};

#[test]
fn activations_equal_pytorchs() {
    let _turn = turn();
    let table: Vec<(Box<dyn Module>, &[f64])> = vec![
        (Box::new(ReLU), &[0.0, 0.0, 0.0, 0.0, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(ReLU6), &[0.0, 0.0, 0.0, 0.0, 0.0, 0.3, 0.75, 1.5, 3.5, 6.0]),
        (
            Box::new(Tanh),
            &[-0.999329, -0.986614, -0.761594, -0.244919, 0.0, 0.291313, 0.635149, 0.905148, 0.998178, 0.999998],
        ),
        (
            Box::new(Tanhshrink),
            &[-3.000671, -1.513386, -0.238406, -0.005081, 0.0, 0.008687, 0.114851, 0.594852, 2.501822, 6.000002],
        ),
        (
            Box::new(Sigmoid),
            &[0.017986, 0.075858, 0.268941, 0.437824, 0.5, 0.574443, 0.679179, 0.817574, 0.970688, 0.999089],
        ),
        (
            Box::new(LogSigmoid),
            &[
                -4.01815,
                -2.57889,
                -1.313262,
                -0.825939,
                -std::f64::consts::LN_2,
                -0.554355,
                -0.386871,
                -0.201413,
                -0.02975,
                -0.000911,
            ],
        ),
        (Box::new(Hardsigmoid), &[0.0, 0.083333, 0.333333, 0.458333, 0.5, 0.55, 0.625, 0.75, 1.0, 1.0]),
        (Box::new(Hardswish), &[0.0, -0.208333, -0.333333, -0.114583, 0.0, 0.165, 0.46875, 1.125, 3.5, 7.0]),
        (
            Box::new(SiLU),
            &[-0.071945, -0.189645, -0.268941, -0.109456, 0.0, 0.172333, 0.509384, 1.226362, 3.397407, 6.993623],
        ),
        (
            Box::new(Mish),
            &[-0.072592, -0.196816, -0.303401, -0.129927, 0.0, 0.208001, 0.610018, 1.403378, 3.493991, 6.999989],
        ),
        (
            Box::new(SELU),
            &[-1.725899, -1.613786, -1.111331, -0.38889, 0.0, 0.31521, 0.788026, 1.576051, 3.677454, 7.354907],
        ),
        (Box::new(Softsign), &[-0.8, -0.714286, -0.5, -0.2, 0.0, 0.230769, 0.428571, 0.6, 0.777778, 0.875]),
        (
            Box::new(GELU::default()),
            &[-0.000126, -0.015524, -0.158655, -0.100323, 0.0, 0.185373, 0.580029, 1.399789, 3.499186, 7.0],
        ),
        (
            Box::new(GELU { tanh: true }),
            &[-0.000070, -0.015084, -0.158808, -0.100325, 0.0, 0.185371, 0.579961, 1.399572, 3.499384, 7.0],
        ),
        (Box::new(LeakyReLU { negative_slope: 0.2 }), &[-0.8, -0.5, -0.2, -0.05, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(ELU { alpha: 0.7 }), &[-0.687179, -0.64254, -0.442484, -0.154839, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(CELU { alpha: 0.7 }), &[-0.697691, -0.680319, -0.532244, -0.210229, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
        (
            Box::new(Softplus { beta: 2.0, threshold: 5.0 }),
            &[0.000168, 0.003358, 0.063464, 0.237038, 0.346574, 0.518744, 0.850707, 1.524294, 3.5, 7.0],
        ),
        (Box::new(Hardtanh { min_val: -0.5, max_val: 2.0 }), &[-0.5, -0.5, -0.5, -0.25, 0.0, 0.3, 0.75, 1.5, 2.0, 2.0]),
        (Box::new(Hardshrink { lambd: 0.3 }), &[-4.0, -2.5, -1.0, 0.0, 0.0, 0.0, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(Softshrink { lambd: 0.4 }), &[-3.6, -2.1, -0.6, 0.0, 0.0, 0.0, 0.35, 1.1, 3.1, 6.6]),
        (
            Box::new(Softmax { dim: 0 }),
            &[0.000016, 0.000072, 0.000323, 0.000683, 0.000877, 0.001184, 0.001857, 0.003931, 0.02905, 0.962006],
        ),
        (
            Box::new(Softmin { dim: 0 }),
            &[0.745363, 0.166313, 0.037109, 0.017529, 0.013652, 0.010114, 0.006449, 0.003046, 0.000412, 0.000012],
        ),
        (
            Box::new(LogSoftmax::default()),
            &[
                -11.038734, -9.538734, -8.038734, -7.288734, -7.038734, -6.738734, -6.288734, -5.538734, -3.538735,
                -0.038735,
            ],
        ),
        (Box::new(GLU::default()), &[-2.29777, -1.697947, -0.817574, -0.242672, 0.0]),
        (Box::new(Threshold::new(0.5, -7.0)), &[-7.0, -7.0, -7.0, -7.0, -7.0, -7.0, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(PReLU::new().unwrap()), &[-1.0, -0.625, -0.25, -0.0625, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
        (Box::new(RReLU::default()), &[-0.916667, -0.572917, -0.229167, -0.057292, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]),
    ];
    for device in devices() {
        let x = Tensor::from_slice(&[-4.0f32, -2.5, -1.0, -0.25, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0], &[10]).unwrap();
        let x = x.to_device(device).unwrap();
        for (m, want) in &table {
            m.to(device).unwrap();
            m.eval();
            close(&m.forward(&x).unwrap(), want);
        }
    }
    refused(
        Softmax2d.forward(&ones(&[3, 2])),
        ErrorKind::Value,
        "Softmax2d: expected input to be 3D or 4D, got 2D instead",
    );
    let wrong = Hardtanh { min_val: 1.0, max_val: 1.0 }.forward(&ones(&[2]));
    refused(wrong, ErrorKind::Value, "max_val (1.0) must be greater than min_val (1.0)");
}

#[test]
fn trained_and_random_slopes_equal_pytorchs() {
    let _turn = turn();
    for device in devices() {
        let x = Tensor::from_slice(&[-4.0f32, -2.5, -1.0, -0.25, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0], &[10]).unwrap();
        manual_seed(3);
        let y = RReLU::new(0.1, 0.5).forward(&x.to_device(device).unwrap()).unwrap();
        if device == Device::CPU {
            close(&y, &[-0.454573, -0.53674, -0.409166, -0.042493, 0.0, 0.3, 0.75, 1.5, 3.5, 7.0]);
        }
        manual_seed(3);
        let m = PReLU::with_parameters(2, 0.25).unwrap();
        m.to(device).unwrap();
        let y = m.forward(&randn(&[2, 2, 2]).to_device(device).unwrap()).unwrap();
        close(&y, &[0.803276, 0.174833, 0.088978, -0.15343, 0.046182, -0.342065, 0.337495, 1.011116]);
        y.sum().unwrap().backward().unwrap();
        close(&m.weight.grad().unwrap(), &[-1.368259, -0.613718]);
        assert_eq!(names(&m), ["weight"]);
        manual_seed(3);
        let y = Softmax2d.forward(&randn(&[2, 2, 2]).to_device(device).unwrap()).unwrap();
        close(&y, &[0.680722, 0.823914, 0.438189, 0.164539, 0.319278, 0.176086, 0.561811, 0.835461]);
    }
}
