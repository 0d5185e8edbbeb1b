//! Test of anomaly mode, in a separate process because it affects all threads.

use torchtpu::autograd::anomaly::DetectAnomaly;
use torchtpu::{Backward, Tensor};

#[test]
fn anomaly_mode_names_the_forward_call() {
    let x = Tensor::from_slice(&[-1.0f64], &[1]).unwrap();
    x.requires_grad_(true).unwrap();
    let plain = x.sqrt().unwrap().sum().unwrap();
    let _mode = DetectAnomaly::new(true);
    let y = x.sqrt().unwrap().sum().unwrap();
    let e = y.backward().unwrap_err();
    assert_eq!(e.message(), "Function 'SqrtBackward0' returned nan values in its 0th output.");
    let note = e.notes().join("\n");
    assert!(note.starts_with("Error detected in SqrtBackward0. Traceback of forward call that caused the error:"));
    assert!(note.contains("anomaly_mode_names_the_forward_call"), "{note}");
    let e = plain.backward().unwrap_err();
    assert!(e.notes().join("\n").contains("No forward pass information available."));
    drop(_mode);
    x.sqrt().unwrap().sum().unwrap().backward().unwrap();
    assert!(x.grad().unwrap().to_vec::<f64>().unwrap()[0].is_nan());
}
