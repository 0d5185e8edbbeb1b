//! Tests of convolutions, normalisation, pooling, padding and resizing as modules, against numbers of PyTorch from the
//! same seeds.

use crate::common::{devices, randn, turn};
use torchtpu::nn::*;
use torchtpu::random::manual_seed;
use torchtpu::{Backward, Device, ErrorKind, Result, Tensor};

fn keys(m: &dyn Module) -> Vec<String> {
    m.state_dict().into_iter().map(|(name, _)| name).collect()
}

/// A name, the sum of the elements, and their sum weighted by the position in the flat tensor, from 1/n to 1.
type Numbers = (&'static str, f64, f64);

#[rustfmt::skip]
const FORWARD: &[Numbers] = &[
    ("conv1", 4.892132, 2.685815),
    ("conv1 reflect", 0.877698, 1.414778),
    ("conv1 replicate", 2.184206, 2.046318),
    ("conv1 circular", 1.224936, 1.800972),
    ("conv1 same", 4.899834, 2.883067),
    ("transposed1", 14.587276, 5.510569),
    ("batch1", 1e-06, 4.82235),
    ("instance1", -1e-06, -0.18854),
    ("group1", 0.0, 0.046939),
    ("lrn1", -2.060656, 3.399197),
    ("max1", 25.349112, 17.920479),
    ("avg1", -0.71603, 3.43452),
    ("lp1", 35.507879, 18.785483),
    ("adaptive avg1", -0.358479, 1.82798),
    ("adaptive max1", 18.53657, 12.237222),
    ("constant1", 6.924564, 9.585403),
    ("zero1", -1.075436, 5.573843),
    ("reflection1", 4.176828, 12.994118),
    ("replication1", -8.359621, 5.819446),
    ("circular1", -2.110751, 10.838786),
    ("nearest1", 1.499302, 9.297076),
    ("exact1", -0.554995, 2.509874),
    ("linear1", -0.349229, 11.555152),
    ("unpool1", 14.29438, 9.880509),
    ("conv2", 20.99576, 8.041256),
    ("conv2 reflect", 14.005025, 3.818181),
    ("conv2 replicate", 14.208779, 4.212247),
    ("conv2 circular", 13.680802, 4.317439),
    ("conv2 same", -1.505335, -2.247156),
    ("transposed2", 187.879574, 77.656187),
    ("batch2", -1e-06, -2.397364),
    ("instance2", -1e-06, 1.542884),
    ("group2", -1e-06, 0.786433),
    ("lrn2", 2.374796, 2.734651),
    ("max2", 199.432833, 96.318695),
    ("avg2", 2.50453, 0.022804),
    ("lp2", 185.642736, 93.200897),
    ("adaptive avg2", 1.106203, 1.119148),
    ("adaptive max2", 109.365144, 54.082785),
    ("fractional2", 80.45087, 39.204065),
    ("constant2", 141.129719, 70.824914),
    ("zero2", 5.129719, 2.529435),
    ("reflection2", 44.911229, 24.969576),
    ("replication2", -11.858033, -7.173547),
    ("circular2", 36.869866, 9.658908),
    ("nearest2", 16.302012, 14.007747),
    ("exact2", -17.729598, -8.786769),
    ("linear2", 28.456611, 15.290327),
    ("unpool2", 96.073776, 44.631131),
    ("conv3", -18.51636, -11.261554),
    ("conv3 reflect", -34.399502, -26.997787),
    ("conv3 replicate", -30.546631, -23.913961),
    ("conv3 circular", -17.49687, -21.816697),
    ("conv3 same", -1.354976, -7.515641),
    ("transposed3", -458.916655, -286.139716),
    ("batch3", 1e-06, -2.451921),
    ("instance3", 1e-06, -2.546327),
    ("group3", 2e-06, -0.05974),
    ("lrn3", 34.406229, 21.261718),
    ("max3", 608.611886, 303.449954),
    ("avg3", 2.888207, 3.873864),
    ("lp3", 399.503516, 202.538068),
    ("adaptive avg3", 3.432001, 1.972542),
    ("adaptive max3", 371.737059, 184.363346),
    ("fractional3", 315.952218, 156.838302),
    ("constant3", 1218.969085, 615.424913),
    ("zero3", 42.969085, 27.716719),
    ("reflection3", 393.562265, 222.93822),
    ("replication3", -158.085271, -33.571817),
    ("circular3", 137.592734, 99.521453),
    ("nearest3", 227.559493, 113.030643),
    ("exact3", -33.476704, -16.378262),
    ("linear3", 459.022107, 276.493087),
    ("unpool3", 208.891302, 101.400111),
    ("layer", -0.0, 1.542884),
    ("rms", 0.907972, 0.641877),
    ("bicubic", 12.095504, 7.623187),
    ("shuffle", 5.129719, 4.805473),
    ("unshuffle", 10.393301, 8.570585),
    ("channels", 5.129719, 0.295633),
    ("unfold", 1.678523, 0.016962),
    ("fold", 3.530016, 13.041372),
    ("unflatten", 5.129719, 3.037462),
];

#[rustfmt::skip]
const GRADIENTS: &[Numbers] = &[
    ("conv", 1066.608036, 840.145406),
    ("transposed", 226.834948, 108.816127),
    ("group", 895.99115, 552.822838),
    ("lp", 3.657821, 3.550017),
    ("reflection", 89.822459, 51.230926),
    ("upsample", 41.037748, 23.946047),
    ("fold", -32.727597, 40.672697),
    ("size", 82.190027, 32.654678),
];

#[track_caller]
fn near(name: &str, table: &[Numbers], y: &Tensor) {
    let &(_, sum, weighted) = table.iter().find(|n| n.0 == name).unwrap();
    let y = y.detach().contiguous().unwrap().to_vec::<f32>().unwrap();
    let size: f64 = 1.0 + y.iter().map(|v| f64::from(v.abs())).sum::<f64>();
    let got: f64 = y.iter().map(|&v| f64::from(v)).sum();
    let places = y.iter().enumerate();
    let by_place: f64 = places.map(|(i, &v)| f64::from(v) * (i + 1) as f64 / y.len() as f64).sum();
    assert!((got - sum).abs() < 3e-6 * size, "{name}: {got} against {sum}");
    assert!((by_place - weighted).abs() < 3e-6 * size, "{name}: {by_place} against {weighted}, weighted");
}

/// Check a layer and an input drawn after one seed, on every device.
#[track_caller]
fn check<M: Module>(name: &str, make: impl Fn() -> Result<M>, dims: &[usize]) {
    for device in devices() {
        manual_seed(1);
        let (m, x) = (make().unwrap(), randn(dims));
        m.to(device).unwrap();
        if name.starts_with("fractional") && device != Device::CPU {
            // The device draws windows from its own numbers, so only check that their maxima are elements of the input.
            let (y, all) = (m.forward(&x.to_device(device).unwrap()).unwrap(), x.to_vec::<f32>().unwrap());
            let y = y.to_vec::<f32>().unwrap();
            assert!(!y.is_empty() && y.iter().all(|v| all.contains(v)), "{name}: {y:?}");
            continue;
        }
        near(name, FORWARD, &m.forward(&x.to_device(device).unwrap()).unwrap());
    }
}

/// Check the gradient of the sum of squares with respect to the first parameter, or to the input if there is none.
#[track_caller]
fn check_gradient<M: Module>(name: &str, make: impl Fn() -> Result<M>, dims: &[usize]) {
    for device in devices() {
        manual_seed(1);
        let (m, x) = (make().unwrap(), randn(dims));
        m.to(device).unwrap();
        let x = x.to_device(device).unwrap();
        x.requires_grad_(true).unwrap();
        m.forward(&x).unwrap().square().unwrap().sum().unwrap().backward().unwrap();
        let g = m.parameters().first().map_or_else(|| x.grad(), |p| p.grad()).unwrap();
        near(name, GRADIENTS, &g);
    }
}

#[test]
fn layers_over_one_dimension_equal_pytorchs() {
    let _turn = turn();
    let x = [2, 4, 9];
    let o = Conv1dOptions::default();
    let half = Conv1dOptions { stride: [2; 1], padding: [1; 1], groups: 2, ..o };
    check("conv1", || Conv1d::new(4, 6, [3; 1], half), &x);
    let same = Conv1dOptions { named_padding: Some(NamedPadding::Same), ..o };
    for (name, padding_mode) in [
        ("conv1 reflect", PaddingMode::Reflect),
        ("conv1 replicate", PaddingMode::Replicate),
        ("conv1 circular", PaddingMode::Circular),
    ] {
        check(name, || Conv1d::new(4, 2, [3; 1], Conv1dOptions { padding_mode, ..same }), &x);
    }
    let wide = Conv1dOptions { dilation: [2; 1], bias: false, ..same };
    check("conv1 same", || Conv1d::new(4, 2, [3; 1], wide), &x);
    let o = ConvTranspose1dOptions {
        stride: [2; 1],
        padding: [1; 1],
        output_padding: [1; 1],
        groups: 2,
        ..Default::default()
    };
    check("transposed1", || ConvTranspose1d::new(4, 6, [3; 1], o), &x);
    check("batch1", || BatchNorm1d::new(4), &x);
    check("instance1", || InstanceNorm1d::new(4), &x);
    check("group1", || GroupNorm::new(2, 4), &x);
    check("lrn1", || Ok(LocalResponseNorm { alpha: 0.5, ..LocalResponseNorm::new(3) }), &x);
    let max = MaxPool1d { stride: [2; 1], padding: [1; 1], ceil_mode: true, ..MaxPool1d::new(3) };
    check("max1", || Ok(max), &x);
    let avg = AvgPool1d { stride: [2; 1], padding: [1; 1], ceil_mode: true, ..AvgPool1d::new(3) };
    check("avg1", || Ok(AvgPool1d { count_include_pad: false, ..avg }), &x);
    check("lp1", || Ok(LPPool1d::new(2.0, 2)), &x);
    check("adaptive avg1", || Ok(AdaptiveAvgPool1d::new(3)), &x);
    check("adaptive max1", || Ok(AdaptiveMaxPool1d::new(3)), &x);
    check("constant1", || Ok(ConstantPad1d::new(1, 0.5)), &x);
    check("zero1", || Ok(ZeroPad1d::new(2)), &x);
    check("reflection1", || Ok(ReflectionPad1d::new(2)), &x);
    check("replication1", || Ok(ReplicationPad1d::new(2)), &x);
    check("circular1", || Ok(CircularPad1d::new(2)), &x);
    check("nearest1", || Ok(Upsample::by_factor(&[1.5], UpsampleMode::Nearest)), &x);
    check("exact1", || Ok(Upsample::to_size(&[4; 1], UpsampleMode::NearestExact)), &x);
    let linear = Upsample { align_corners: Some(true), ..Upsample::by_factor(&[2.0], UpsampleMode::Linear) };
    check("linear1", || Ok(linear.clone()), &x);
    manual_seed(1);
    let (pool, x) = (MaxPool1d::new(2), randn(&x));
    for device in devices() {
        let x = x.to_device(device).unwrap();
        let (y, at) = pool.forward_with_indices(&x).unwrap();
        let whole: Vec<i64> = x.dims().iter().map(|&n| n as i64).collect();
        near("unpool1", FORWARD, &MaxUnpool1d::new(2).unpool(&y, &at, Some(&whole)).unwrap());
    }
}

#[test]
fn layers_over_two_dimensions_equal_pytorchs() {
    let _turn = turn();
    let x = [2, 4, 7, 8];
    let o = Conv2dOptions::default();
    let half = Conv2dOptions { stride: [2; 2], padding: [1; 2], groups: 2, ..o };
    check("conv2", || Conv2d::new(4, 6, [3; 2], half), &x);
    let same = Conv2dOptions { named_padding: Some(NamedPadding::Same), ..o };
    for (name, padding_mode) in [
        ("conv2 reflect", PaddingMode::Reflect),
        ("conv2 replicate", PaddingMode::Replicate),
        ("conv2 circular", PaddingMode::Circular),
    ] {
        check(name, || Conv2d::new(4, 2, [3; 2], Conv2dOptions { padding_mode, ..same }), &x);
    }
    let wide = Conv2dOptions { dilation: [2; 2], bias: false, ..same };
    check("conv2 same", || Conv2d::new(4, 2, [3; 2], wide), &x);
    let o = ConvTranspose2dOptions {
        stride: [2; 2],
        padding: [1; 2],
        output_padding: [1; 2],
        groups: 2,
        ..Default::default()
    };
    check("transposed2", || ConvTranspose2d::new(4, 6, [3; 2], o), &x);
    check("batch2", || BatchNorm2d::new(4), &x);
    check("instance2", || InstanceNorm2d::new(4), &x);
    check("group2", || GroupNorm::new(2, 4), &x);
    check("lrn2", || Ok(LocalResponseNorm { alpha: 0.5, ..LocalResponseNorm::new(3) }), &x);
    let max = MaxPool2d { stride: [2; 2], padding: [1; 2], ceil_mode: true, ..MaxPool2d::new(3) };
    check("max2", || Ok(max), &x);
    let avg = AvgPool2d { stride: [2; 2], padding: [1; 2], ceil_mode: true, ..AvgPool2d::new(3) };
    check("avg2", || Ok(AvgPool2d { count_include_pad: false, ..avg }), &x);
    check("lp2", || Ok(LPPool2d::new(2.0, 2)), &x);
    check("adaptive avg2", || Ok(AdaptiveAvgPool2d::new(3)), &x);
    check("adaptive max2", || Ok(AdaptiveMaxPool2d::new(3)), &x);
    check("fractional2", || FractionalMaxPool2d::new([2; 2], FractionalOutput::Size([3; 2])), &x);
    check("constant2", || Ok(ConstantPad2d::new(1, 0.5)), &x);
    check("zero2", || Ok(ZeroPad2d::new(2)), &x);
    check("reflection2", || Ok(ReflectionPad2d::new(2)), &x);
    check("replication2", || Ok(ReplicationPad2d::new(2)), &x);
    check("circular2", || Ok(CircularPad2d::new(2)), &x);
    check("nearest2", || Ok(Upsample::by_factor(&[1.5], UpsampleMode::Nearest)), &x);
    check("exact2", || Ok(Upsample::to_size(&[4; 2], UpsampleMode::NearestExact)), &x);
    let linear = Upsample { align_corners: Some(true), ..Upsample::by_factor(&[2.0], UpsampleMode::Bilinear) };
    check("linear2", || Ok(linear.clone()), &x);
    manual_seed(1);
    let (pool, x) = (MaxPool2d::new(2), randn(&x));
    for device in devices() {
        let x = x.to_device(device).unwrap();
        let (y, at) = pool.forward_with_indices(&x).unwrap();
        let whole: Vec<i64> = x.dims().iter().map(|&n| n as i64).collect();
        near("unpool2", FORWARD, &MaxUnpool2d::new(2).unpool(&y, &at, Some(&whole)).unwrap());
    }
}

#[test]
fn layers_over_three_dimensions_equal_pytorchs() {
    let _turn = turn();
    let x = [2, 4, 5, 6, 7];
    let o = Conv3dOptions::default();
    let half = Conv3dOptions { stride: [2; 3], padding: [1; 3], groups: 2, ..o };
    check("conv3", || Conv3d::new(4, 6, [3; 3], half), &x);
    let same = Conv3dOptions { named_padding: Some(NamedPadding::Same), ..o };
    for (name, padding_mode) in [
        ("conv3 reflect", PaddingMode::Reflect),
        ("conv3 replicate", PaddingMode::Replicate),
        ("conv3 circular", PaddingMode::Circular),
    ] {
        check(name, || Conv3d::new(4, 2, [3; 3], Conv3dOptions { padding_mode, ..same }), &x);
    }
    let wide = Conv3dOptions { dilation: [2; 3], bias: false, ..same };
    check("conv3 same", || Conv3d::new(4, 2, [3; 3], wide), &x);
    let o = ConvTranspose3dOptions {
        stride: [2; 3],
        padding: [1; 3],
        output_padding: [1; 3],
        groups: 2,
        ..Default::default()
    };
    check("transposed3", || ConvTranspose3d::new(4, 6, [3; 3], o), &x);
    check("batch3", || BatchNorm3d::new(4), &x);
    check("instance3", || InstanceNorm3d::new(4), &x);
    check("group3", || GroupNorm::new(2, 4), &x);
    check("lrn3", || Ok(LocalResponseNorm { alpha: 0.5, ..LocalResponseNorm::new(3) }), &x);
    let max = MaxPool3d { stride: [2; 3], padding: [1; 3], ceil_mode: true, ..MaxPool3d::new(3) };
    check("max3", || Ok(max), &x);
    let avg = AvgPool3d { stride: [2; 3], padding: [1; 3], ceil_mode: true, ..AvgPool3d::new(3) };
    check("avg3", || Ok(AvgPool3d { count_include_pad: false, ..avg }), &x);
    check("lp3", || Ok(LPPool3d::new(2.0, 2)), &x);
    check("adaptive avg3", || Ok(AdaptiveAvgPool3d::new(3)), &x);
    check("adaptive max3", || Ok(AdaptiveMaxPool3d::new(3)), &x);
    check("fractional3", || FractionalMaxPool3d::new([2; 3], FractionalOutput::Size([3; 3])), &x);
    check("constant3", || Ok(ConstantPad3d::new(1, 0.5)), &x);
    check("zero3", || Ok(ZeroPad3d::new(2)), &x);
    check("reflection3", || Ok(ReflectionPad3d::new(2)), &x);
    check("replication3", || Ok(ReplicationPad3d::new(2)), &x);
    check("circular3", || Ok(CircularPad3d::new(2)), &x);
    check("nearest3", || Ok(Upsample::by_factor(&[1.5], UpsampleMode::Nearest)), &x);
    check("exact3", || Ok(Upsample::to_size(&[4; 3], UpsampleMode::NearestExact)), &x);
    let linear = Upsample { align_corners: Some(true), ..Upsample::by_factor(&[2.0], UpsampleMode::Trilinear) };
    check("linear3", || Ok(linear.clone()), &x);
    manual_seed(1);
    let (pool, x) = (MaxPool3d::new(2), randn(&x));
    for device in devices() {
        let x = x.to_device(device).unwrap();
        let (y, at) = pool.forward_with_indices(&x).unwrap();
        let whole: Vec<i64> = x.dims().iter().map(|&n| n as i64).collect();
        near("unpool3", FORWARD, &MaxUnpool3d::new(2).unpool(&y, &at, Some(&whole)).unwrap());
    }
}

#[test]
fn other_layers_equal_pytorchs() {
    let _turn = turn();
    let x = [2, 4, 7, 8];
    let plain = LayerNormOptions { elementwise_affine: false, ..LayerNormOptions::default() };
    check("layer", || LayerNorm::with_options(&[7, 8], plain), &x);
    check("rms", || RMSNorm::new(&[8]), &x);
    check("bicubic", || Ok(Upsample::by_factor(&[1.5], UpsampleMode::Bicubic)), &x);
    check("shuffle", || Ok(PixelShuffle::new(2)), &x);
    check("unshuffle", || Ok(PixelUnshuffle::new(2)), &[2, 4, 6, 8]);
    check("channels", || Ok(ChannelShuffle::new(2)), &x);
    check("unfold", || Ok(Unfold { padding: [1; 2], stride: [2; 2], ..Unfold::new([2, 3]) }), &x);
    check("fold", || Ok(Fold::new([4, 5], [2, 2])), &[2, 8, 12]);
    check("unflatten", || Ok(Unflatten::new(1, &[2, 2])), &x);
}

#[test]
fn gradients_equal_pytorchs() {
    let _turn = turn();
    let x = [2, 4, 7, 8];
    let circular = Conv3dOptions { padding: [1; 3], padding_mode: PaddingMode::Circular, ..Conv3dOptions::default() };
    check_gradient("conv", || Conv3d::new(4, 2, [3; 3], circular), &[2, 4, 5, 6, 7]);
    let o = ConvTranspose2dOptions { stride: [2; 2], ..ConvTranspose2dOptions::default() };
    check_gradient("transposed", || ConvTranspose2d::new(4, 2, [3; 2], o), &x);
    check_gradient("group", || GroupNorm::new(2, 4), &x);
    check_gradient("lp", || Ok(LPPool2d::new(2.0, 2)), &x);
    check_gradient("reflection", || Ok(ReflectionPad2d::new(2)), &x);
    check_gradient("upsample", || Ok(Upsample::by_factor(&[2.0], UpsampleMode::Bilinear)), &x);
    check_gradient("fold", || Ok(Fold::new([4, 5], [2, 2])), &[2, 8, 12]);
}

#[test]
fn keys_and_names_equal_pytorchs() {
    let _turn = turn();
    let tracked = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"];
    assert_eq!(keys(&BatchNorm1d::new(2).unwrap()), tracked);
    assert!(keys(&InstanceNorm2d::new(2).unwrap()).is_empty());
    assert_eq!(
        keys(&BatchNorm3d::with_options(2, NormOptions { bias: false, ..NormOptions::batch() }).unwrap())[1],
        "running_mean"
    );
    assert_eq!(keys(&ConvTranspose1d::new(2, 4, [3], Default::default()).unwrap()), ["weight", "bias"]);
    assert_eq!(keys(&GroupNorm::new(1, 2).unwrap()), ["weight", "bias"]);
    assert_eq!(keys(&RMSNorm::new(&[2]).unwrap()), ["weight"]);
    assert_eq!(Conv3d::new(1, 1, [1; 3], Default::default()).unwrap().name(), "Conv3d");
    assert_eq!(
        (InstanceNorm1d::new(1).unwrap().name(), CircularPad2d::new(1).name()),
        ("InstanceNorm1d", "CircularPad2d")
    );
}

#[test]
fn transposed_convolutions_accept_every_possible_output_size() {
    let _turn = turn();
    manual_seed(1);
    let o = ConvTranspose2dOptions { stride: [2; 2], ..ConvTranspose2dOptions::default() };
    let m = ConvTranspose2d::new(4, 2, [3; 2], o).unwrap();
    let x = randn(&[2, 4, 7, 8]);
    near("size", GRADIENTS, &m.forward_with_output_size(&x, &[16, 18]).unwrap());
    let e = m.forward_with_output_size(&x, &[20, 17]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Value);
    assert_eq!(
        e.message(),
        "requested an output size of [20, 17], but valid sizes range from [15, 17] to [16, 18] (for an input of \
        torch.Size([7, 8]))"
    );
    assert!(m.forward_with_output_size(&x, &[i64::MAX, i64::MIN]).is_err());
}

#[test]
fn invalid_settings_are_errors_and_never_panic() {
    let _turn = turn();
    let x = randn(&[1, 2, 6, 6]);
    for v in [i64::MAX, i64::MIN, i64::MAX / 2, -1] {
        let o = Conv2dOptions { padding: [v; 2], ..Conv2dOptions::default() };
        assert!(Conv2d::new(2, 2, [3; 2], o).and_then(|m| m.forward(&x)).is_err());
        let o = Conv2dOptions { stride: [v; 2], ..Conv2dOptions::default() };
        assert!(Conv2d::new(2, 2, [3; 2], o).and_then(|m| m.forward(&x)).is_err());
        assert!(MaxPool2d::new(v).forward(&x).is_err());
        assert!(AvgPool2d::new(v).forward(&x).is_err());
        assert!(LPPool2d::new(2.0, v).forward(&x).is_err());
        assert!(AdaptiveAvgPool2d::new(v).forward(&x).is_err());
        assert!(Unfold::new([v; 2]).forward(&x).is_err());
        assert!(PixelShuffle::new(v).forward(&x).is_err());
        assert!(Upsample::to_size(&[v], UpsampleMode::Bilinear).forward(&x).is_err());
        assert!(Upsample::by_factor(&[v as f64], UpsampleMode::Nearest).forward(&x).is_err());
    }
    assert!(ReflectionPad2d::new(i64::MIN).forward(&x).is_err());
    assert!(ConstantPad2d::new(i64::MAX, 1.0).forward(&x).is_err());
    assert!(Conv2d::new(usize::MAX, usize::MAX, [usize::MAX; 2], Conv2dOptions::default()).is_err());
    assert!(BatchNorm2d::new(usize::MAX).is_err());
    let strided = Conv2dOptions { stride: [2; 2], named_padding: Some(NamedPadding::Same), ..Conv2dOptions::default() };
    let e = Conv2d::new(2, 2, [3; 2], strided).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Value, "padding='same' is not supported for strided convolutions"));
    let e = GroupNorm::new(3, 4).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Value, "num_channels (4) must be divisible by num_groups (3)"));
    let e = BatchNorm1d::new(2).unwrap().forward(&x).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Value, "expected 2D or 3D input (got 4D input)"));
    let e = Upsample::default().forward(&x).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Value, "either size or scale_factor should be defined"));
    let e = CircularPad1d::new(1).forward(&x).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Value, "expected 2D or 3D input (got 4D input)"));
}
