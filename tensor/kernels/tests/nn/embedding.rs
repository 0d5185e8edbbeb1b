use super::*;
use torchtpu_kernels::embedding::{embedding_grad, index_select_rows};

#[test]
fn rows_are_gathered_and_their_gradients_are_added() {
    let mut random = Random(17);
    let w = random.nd(&[10, 2, 3]);
    let idx = Array::of(vec![3i64, 9, 3, 0, 3, 1], &[2, 3]);
    for strided in [false, true] {
        let table = w.cast::<f32>(strided);
        let mut out = Array::<f32>::garbage(&[2, 3, 2, 3]).cast::<f32>(strided);
        index_select_rows(&table.view(), &idx.cast::<i32>(strided).view(), &mut out.view_mut()).unwrap();
        let got = out.nd();
        for (i, &v) in idx.data.iter().enumerate() {
            assert_close(
                &Nd::of(got.data[i * 6..][..6].to_vec(), &[6]),
                &Nd::of(w.data[v as usize * 6..][..6].to_vec(), &[6]),
                1e-6,
                "row",
            );
        }
    }
    let g = random.nd(&[2, 3, 2, 3]);
    for padding in [None, Some(3)] {
        let mut want = Nd::zeros(&[10, 2, 3]);
        for (i, &v) in idx.data.iter().enumerate() {
            if padding != Some(v as usize) {
                for j in 0..6 {
                    want.data[v as usize * 6 + j] += g.data[i * 6 + j];
                }
            }
        }
        let mut out = Array::<bf16>::garbage(&[10, 2, 3]);
        embedding_grad(&g.cast::<bf16>(false).view(), &idx.view(), padding, &mut out.view_mut()).unwrap();
        assert_close(&out.nd(), &want, 2e-2, "table gradient");
    }
    for bad in [10, -1] {
        let idx = Array::of(vec![0i64, bad], &[2]);
        let mut out = Nd::zeros(&[2, 2, 3]);
        let error = index_select_rows(&w.view(), &idx.view(), &mut out.view_mut()).unwrap_err();
        assert_eq!(error, KernelError::IndexOutOfRange("index out of range in self".into()));
        assert!(
            embedding_grad(&out.clone().view(), &idx.view(), None, &mut Nd::zeros(&[10, 2, 3]).view_mut()).is_err()
        );
    }
    let empty = Array::<i64>::zeros(&[0]);
    index_select_rows(&w.view(), &empty.view(), &mut Nd::zeros(&[0, 2, 3]).view_mut()).unwrap();
}
