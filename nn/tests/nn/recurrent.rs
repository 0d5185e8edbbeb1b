//! Tests of recurrent layers against numbers of PyTorch from the same seeds.

use crate::common::{close, names, randn, turn};
use torchtpu::nn::{GRU, GRUCell, LSTM, LSTMCell, Module, RNN, RnnNonlinearity, RnnOptions};
use torchtpu::random::manual_seed;
use torchtpu::{Backward, Device};

#[test]
fn recurrent_layers_equal_pytorchs() {
    let _turn = turn();
    manual_seed(1);
    let lstm = LSTM::new(3, 2, RnnOptions { num_layers: 2, bidirectional: true, ..RnnOptions::default() }).unwrap();
    let x = randn(&[4, 2, 3]);
    close(&lstm.forward(&x).unwrap().sum().unwrap(), &[2.73527]);
    assert_eq!(names(&lstm)[3..6], ["bias_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse"]);
    manual_seed(1);
    let cell = GRUCell::new(3, 2, true).unwrap();
    close(
        &cell.forward(&randn(&[2, 3])).unwrap().flatten(0, -1).unwrap(),
        &[0.122609, -0.472166, -0.156735, -0.246374],
    );
}

#[test]
fn layers_equal_their_cells_on_every_device() {
    let _turn = turn();
    for device in [Device::CPU, torchtpu::device("tpu").unwrap()] {
        manual_seed(2);
        let (layer, cell) = (LSTM::new(3, 4, RnnOptions::default()).unwrap(), LSTMCell::new(3, 4, true).unwrap());
        let state: Vec<_> =
            layer.state_dict().into_iter().map(|(k, v)| (k.trim_end_matches("_l0").to_string(), v)).collect();
        cell.load_state_dict(&state, true).unwrap();
        let x = randn(&[5, 2, 3]).to_device(device).unwrap();
        layer.to(device).unwrap();
        cell.to(device).unwrap();
        let (y, (h, c)) = layer.run(&x, None).unwrap();
        let mut s = None;
        for step in x.unbind(0).unwrap() {
            s = Some(cell.step(&step, s).unwrap());
        }
        let s = s.unwrap();
        close(&h.flatten(0, -1).unwrap(), &s.0.flatten(0, -1).unwrap().to_vec::<f64>().unwrap());
        close(&c.flatten(0, -1).unwrap(), &s.1.flatten(0, -1).unwrap().to_vec::<f64>().unwrap());
        y.square().unwrap().sum().unwrap().backward().unwrap();
        s.0.square().unwrap().sum().unwrap().backward().unwrap();
        assert!(layer.parameters().iter().all(|p| p.grad().is_some()));
        let relu = RNN::new(3, 2, RnnNonlinearity::ReLU, RnnOptions::default()).unwrap();
        relu.to(device).unwrap();
        assert_eq!(relu.run(&x, None).unwrap().1.dims()[..], [1, 2, 2]);
    }
}

#[test]
fn invalid_settings_are_refused() {
    let _turn = turn();
    let wrong = |o: RnnOptions| GRU::new(3, 2, o).unwrap_err().message().to_string();
    assert!(
        wrong(RnnOptions { proj_size: 1, ..RnnOptions::default() }).starts_with("proj_size argument is only supported")
    );
    assert!(
        wrong(RnnOptions { dropout: 2.0, ..RnnOptions::default() }).starts_with("dropout should be a number in range")
    );
    assert!(
        wrong(RnnOptions { num_layers: 0, ..RnnOptions::default() })
            .starts_with("num_layers must be greater than zero")
    );
    let layer = GRU::new(3, 2, RnnOptions::default()).unwrap();
    let e = layer.forward(&randn(&[4, 2, 5])).unwrap_err();
    assert_eq!(e.message(), "input.size(-1) must be equal to input_size. Expected 3, got 5");
    let e = layer.run(&randn(&[4, 2, 3]), Some(randn(&[1, 3, 2]))).unwrap_err();
    assert!(e.message().starts_with("gru: the hidden state has size [3, 2], but must have [2, 2]"), "{e}");
}
