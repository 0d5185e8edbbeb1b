//! Fake tensors: a device, sizes, strides and dtype, and no elements.
//!
//! A fake tensor on `tpu` is on `tpu` for all that it is asked, and needs no plugin and no memory. Ops on it compute
//! the description of their result, with history, as on device `meta`. What needs elements fails, in the words of
//! PyTorch's `FakeTensorMode`.
//!
//! ```
//! use torchtpu_tensor::{DType, Device, Tensor, fake};
//! let x = Tensor::zeros(&[1 << 20, 1 << 20], DType::F32, fake::place(Device::CPU))?;
//! assert_eq!(x.add(&x)?.device(), Device::CPU);
//! assert!(x.sum()?.item().is_err());
//! # Ok::<(), torchtpu_tensor::Error>(())
//! ```

use crate::backend::{self, Absence, Representation};
use crate::op::Prim;
use crate::print::size_text;
use crate::{Device, Error, ErrorKind, Place, Rep, Result, Tensor};
use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static MODE: Cell<Option<Mode>> = const { Cell::new(None) };
}

/// The rules of a thread in whose calls new tensors are fake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mode {
    /// Whether dense tensors may be operands beside fake ones.
    pub allows_dense: bool,
}

/// The place of fake tensors on a device.
pub fn place(device: Device) -> Place {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| backend::install_representation(Rep::Fake, &Fake));
    Place { device, rep: Rep::Fake, member: 0 }
}

/// Set the mode of this thread, and return the one before. With a mode, the binding makes new tensors fake.
pub fn set_mode(mode: Option<Mode>) -> Option<Mode> {
    MODE.replace(mode)
}

/// The mode of this thread.
#[inline]
pub fn mode() -> Option<Mode> {
    MODE.get()
}

/// The place of a tensor that the user makes on `device`: fake in a [`Mode`], else dense.
#[inline]
pub fn place_of_new(device: Device) -> Place {
    if MODE.get().is_some() { place(device) } else { device.into() }
}

/// Whether a tensor is fake.
pub fn is_fake(x: &Tensor) -> bool {
    x.place().rep == Rep::Fake
}

/// Return the fake tensor with the description of `x`: its sizes, strides, offset and device, and whether it requires a
/// gradient. Views of one storage become tensors with storages of their own.
///
/// # Errors
/// `Runtime` if the layout is too large.
pub fn of(x: &Tensor) -> Result<Tensor> {
    let signed = |v: &[usize]| v.iter().map(|&n| n as i64).collect::<Vec<_>>();
    crate::no_grad(|| {
        let meta = crate::Meta { place: place(x.device()), ..*x.meta() };
        let y = if x.is_plain() && x.storage_offset() == 0 {
            Tensor::empty(&meta)?
        } else {
            let elements = x.storage_bytes() / x.dtype().size_bytes();
            let all = Tensor::empty(&meta.with_dims(crate::Dims::new(&[elements])))?;
            let window = all.as_strided(&signed(x.dims()), &signed(x.strides()), Some(x.storage_offset() as i64))?;
            window.shallow_alias()?
        };
        Ok(y)
    })
}

/// The text of a call, as PyTorch writes it in an error about its operands.
pub(crate) fn described(op: &Prim, x: &[&Tensor]) -> String {
    let operand = |t: &&Tensor| match (is_fake(t), t.scalar_bits()) {
        (true, _) => format!("FakeTensor(..., size={})", size_text(t)),
        (false, Some(_)) if t.dims().is_empty() => format!("{t}"),
        (false, _) => format!("tensor([...], size={})", size_text(t)),
    };
    let overload = if op.facts().is_binary { "Tensor" } else { "default" };
    format!("aten.{}.{overload}({})", op.name(), x.iter().map(operand).collect::<Vec<_>>().join(", "))
}

/// The representation of fake tensors. They have no values, so it is never asked for one.
struct Fake;

impl Representation for Fake {
    fn mixed(&self, own: Place, other: Place) -> Error {
        if other.rep == Rep::Fake {
            return Error::new(ErrorKind::FakeDevices, format!("{}{own} and {other}!", crate::block::OTHER_DEVICE));
        }
        Error::new(
            ErrorKind::Assertion,
            "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with \
             'allow_non_fake_inputs'.",
        )
    }

    fn adopt(&self, x: &Tensor, _: Place) -> Result<Option<Tensor>> {
        match mode() {
            Some(Mode { allows_dense: true }) => of(x).map(Some),
            _ => Ok(None),
        }
    }

    fn moved(&self, _: Place, device: Device) -> Result<Place> {
        Ok(place(device))
    }

    fn absent(&self, why: Absence) -> Error {
        match why {
            Absence::Value(op) => Error::new(ErrorKind::DataDependent, format!("aten.{op}")),
            Absence::Size(op) => Error::new(ErrorKind::DynamicShape, format!("aten.{op}")),
        }
    }
}
