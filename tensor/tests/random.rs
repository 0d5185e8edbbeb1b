//! Random numbers: PyTorch's streams on `cpu`, and the counter-based bits of devices.

use torchtpu_tensor::op::Prim;
use torchtpu_tensor::ops::random::{self, Distribution, RandomBits};
use torchtpu_tensor::random::Generator;
use torchtpu_tensor::{DType, Device, Dims, Meta, Tensor, dispatch};

fn meta(dims: &[usize], dtype: DType) -> Meta {
    Meta::new(dims, dtype, Device::CPU)
}

fn draw(d: Distribution, n: usize, dtype: DType, g: &Generator) -> Vec<f64> {
    random::sample(d, &meta(&[n], dtype), Some(g)).unwrap().to_vec::<f64>().unwrap()
}

#[test]
fn seed_zero_gives_the_numbers_everyone_knows() {
    let g = Generator::new(0);
    let near = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 6e-5);
    assert!(near(&draw(Distribution::Uniform(0.0, 1.0), 4, DType::F32, &g), &[0.4963, 0.7682, 0.0885, 0.1320]));
    g.manual_seed(0);
    assert!(near(&draw(Distribution::Normal(0.0, 1.0), 4, DType::F32, &g), &[1.5410, -0.2934, -2.1788, 0.5684]));
    g.manual_seed(0);
    assert_eq!(draw(Distribution::Integers(0, 10), 4, DType::I64, &g), [4.0, 9.0, 3.0, 0.0]);
}

#[test]
fn functions_and_in_place_methods_draw_one_stream() {
    let (g, h) = (Generator::new(7), Generator::new(7));
    let first = draw(Distribution::Uniform(-1.0, 3.0), 20, DType::F32, &g);
    let b = Tensor::zeros(&[20], DType::F32, Device::CPU).unwrap();
    let version = b.version();
    random::fill(Distribution::Uniform(-1.0, 3.0), &b, Some(&h)).unwrap();
    assert_eq!(b.to_vec::<f64>().unwrap(), first);
    assert_ne!(b.version(), version, "an in-place fill counts as a write");
}

#[test]
fn state_goes_round() {
    let g = Generator::new(3);
    draw(Distribution::Normal(0.0, 1.0), 5, DType::F64, &g);
    let state = g.get_state().unwrap();
    assert_eq!(state.len(), Generator::CPU_STATE_BYTES);
    let first = draw(Distribution::Normal(0.0, 1.0), 9, DType::F64, &g);
    g.set_state(&state).unwrap();
    assert_eq!(draw(Distribution::Normal(0.0, 1.0), 9, DType::F64, &g), first);
    assert!(g.set_state(&state[1..]).is_err());
}

#[test]
fn wrong_arguments_are_refused_in_words() {
    for device in [Device::CPU, Device::META] {
        let e =
            random::sample(Distribution::Uniform(1.0, 0.0), &Meta::new(&[3], DType::F32, device), None).unwrap_err();
        assert!(e.message().starts_with("uniform_ expects to return a [from, to) range"), "{e}");
    }
    let tpu = Generator::on(Device::TPU, 1);
    let e = random::sample(Distribution::Uniform(0.0, 1.0), &meta(&[3], DType::F32), Some(&tpu)).unwrap_err();
    assert_eq!(e.message(), "Expected a 'cpu' device type for generator but found 'tpu'");
}

#[test]
fn permutations_and_masks_are_what_they_say() {
    let mut p =
        random::randperm(50, DType::I64, Device::CPU, Some(&Generator::new(1))).unwrap().to_vec::<i64>().unwrap();
    p.sort_unstable();
    assert!(p.iter().copied().eq(0..50));
    let g = Generator::new(1);
    let kept = random::keep_mask(&meta(&[10_000], DType::F32), 0.75, Some(&g)).unwrap();
    let ones = kept.to_vec::<i64>().unwrap().iter().sum::<i64>();
    assert!(kept.dtype() == DType::Bool && (7300..7700).contains(&ones), "{ones}");
    let before = g.get_state().unwrap();
    random::keep_mask(&meta(&[9], DType::F32), 1.0, Some(&g)).unwrap();
    assert_eq!(g.get_state().unwrap(), before, "keeping everything draws nothing");
}

#[test]
fn bits_are_those_of_threefry() {
    // Known answers of Threefry 2x32 with 20 rounds: key, counter, block.
    for (key, counter, block) in [
        (0u64, 0u64, 0x99ba_4efe_6b20_0159u64),
        (u64::MAX, u64::MAX, 0xbb00_2be7_1cb9_96fc),
        (0x0370_7344_1319_8a2e, 0x85a3_08d3_243f_6a88, 0x483d_f7a0_c492_3a9c),
    ] {
        let state = Tensor::from_slice(&[key as i64, counter as i64], &[2]).unwrap();
        let bits =
            |wide| dispatch::call_n(Prim::RandomBits(RandomBits { dims: Dims::new(&[3]), wide }), &[&state]).unwrap();
        let y = bits(true);
        assert_eq!(y[1].to_vec::<i64>().unwrap()[0] as u64, block);
        assert_eq!(y[0].to_vec::<i64>().unwrap(), [key as i64, counter.wrapping_add(3) as i64]);
        let z = bits(false)[1].to_vec::<i32>().unwrap();
        assert_eq!((z[0] as u32, z[1] as u32), (block as u32, (block >> 32) as u32));
    }
}
