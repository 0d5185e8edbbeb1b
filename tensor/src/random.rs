//! Random generators.
//!
//! A `cpu` generator draws PyTorch's streams bit for bit. A `tpu` generator is counter based. Its state is
//! two words, a key made from the seed and a counter, which are an operand of the trace on the device. Each draw
//! returns the next state. So neither seeding nor drawing compiles anything new or waits for the device.

use crate::op::Prim;
use crate::ops::pointwise::kernel_error;
use crate::ops::random::RandomBits;
use crate::{Device, Dims, Error, Held, Place, Result, Tensor, dispatch, state};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
pub use torchtpu_kernels::random::DEFAULT_SEED;
use torchtpu_kernels::random::{Generator as HostGenerator, STATE_BYTES};

enum Engine {
    Host(Box<HostGenerator>),
    /// The state is made at the first draw, so that a generator can be seeded before there is a device.
    Device {
        seed: u64,
        counter: u64,
        state: Option<Tensor>,
    },
}

struct Inner {
    place: Place,
    engine: Mutex<Engine>,
}

/// A point of a generator's stream, from [`Generator::snapshot`].
#[derive(Clone)]
pub struct Snapshot(Stand);

#[derive(Clone)]
enum Stand {
    Host(Box<[u8; STATE_BYTES]>),
    Device(u64, u64, Option<Tensor>),
}

impl Snapshot {
    /// Whether no number was drawn between two snapshots of a generator.
    pub fn is_same(&self, other: &Snapshot) -> bool {
        match (&self.0, &other.0) {
            (Stand::Host(a), Stand::Host(b)) => a == b,
            (Stand::Device(seed, counter, a), Stand::Device(other_seed, other_counter, b)) => {
                let is_same_state = match (a, b) {
                    (Some(a), Some(b)) => a.is_same(b),
                    (a, b) => a.is_none() && b.is_none(),
                };
                seed == other_seed && counter == other_counter && is_same_state
            }
            _ => false,
        }
    }
}

/// A source of random numbers for one device. Clones share it.
#[derive(Clone)]
pub struct Generator(Arc<Inner>);

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<torch._C.Generator device={}>", self.0.place)
    }
}

impl Generator {
    /// A generator for `cpu` with a seed.
    pub fn new(seed: u64) -> Generator {
        Generator::on(Device::CPU, seed)
    }
    /// A generator for a device with a seed.
    pub fn on(device: impl Into<Place>, seed: u64) -> Generator {
        let place = device.into();
        let engine = match place.held() {
            Held::Handle => Engine::Device { seed, counter: 0, state: None },
            _ => Engine::Host(Box::new(HostGenerator::new(seed))),
        };
        Generator(Arc::new(Inner { place, engine: Mutex::new(engine) }))
    }
    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.0.engine.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// The device that it draws for.
    pub fn device(&self) -> Device {
        self.0.place.device
    }
    /// Whether two handles share one generator.
    pub fn is_same(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// Start the stream of a seed.
    pub fn manual_seed(&self, seed: u64) {
        match &mut *self.engine() {
            Engine::Host(g) => g.manual_seed(seed),
            e => *e = Engine::Device { seed, counter: 0, state: None },
        }
    }
    /// The seed that was set last.
    pub fn initial_seed(&self) -> u64 {
        match &*self.engine() {
            Engine::Host(g) => g.initial_seed(),
            Engine::Device { seed, .. } => *seed,
        }
    }
    /// Set and return a seed that differs from run to run.
    pub fn seed(&self) -> u64 {
        let seed = HostGenerator::new(0).seed();
        self.manual_seed(seed);
        seed
    }
    /// The whole state: PyTorch's 5056 bytes on `cpu`; seed and counter, 16 bytes, on `tpu`, which waits for the
    /// device.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn get_state(&self) -> Result<Vec<u8>> {
        match &*self.engine() {
            Engine::Host(g) => Ok(g.get_state().to_vec()),
            Engine::Device { seed, counter, state } => {
                let counter = match state {
                    Some(s) => s.to_vec::<i64>()?[1] as u64,
                    None => *counter,
                };
                Ok([seed.to_le_bytes(), counter.to_le_bytes()].concat())
            }
        }
    }
    /// Restore a state of [`Generator::get_state`].
    ///
    /// # Errors
    /// `Runtime` if the bytes are no state of such a generator.
    pub fn set_state(&self, bytes: &[u8]) -> Result<()> {
        match &mut *self.engine() {
            Engine::Host(g) => g.set_state(bytes).map_err(kernel_error),
            e => {
                let word =
                    |i: usize| bytes.get(i..i + 8).map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
                match (word(0), word(8), bytes.len()) {
                    (Some(seed), Some(counter), 16) => *e = Engine::Device { seed, counter, state: None },
                    _ => {
                        return Err(Error::runtime(format!(
                            "RNG state is wrong size: expected 16 bytes, got {}",
                            bytes.len()
                        )));
                    }
                }
                Ok(())
            }
        }
    }
    /// The current position in the stream. Unlike [`Generator::get_state`], this does not wait for the device.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(match &*self.engine() {
            Engine::Host(g) => Stand::Host(Box::new(g.get_state())),
            Engine::Device { seed, counter, state } => Stand::Device(*seed, *counter, state.clone()),
        })
    }
    /// Go back to the position of a snapshot.
    ///
    /// # Errors
    /// `Runtime` if the snapshot is of a generator for another kind of device.
    pub fn restore(&self, then: &Snapshot) -> Result<()> {
        match (&mut *self.engine(), &then.0) {
            (Engine::Host(g), Stand::Host(bytes)) => g.set_state(&bytes[..]).map_err(kernel_error),
            (e @ Engine::Device { .. }, Stand::Device(seed, counter, state)) => {
                *e = Engine::Device { seed: *seed, counter: *counter, state: state.clone() };
                Ok(())
            }
            _ => Err(Error::runtime("the state is of a generator for another kind of device")),
        }
    }
    /// Number of bytes of the state of a `cpu` generator.
    pub const CPU_STATE_BYTES: usize = STATE_BYTES;

    fn wrong_device(&self, wanted: Place) -> Error {
        Error::runtime(format!(
            "Expected a '{}' device type for generator but found '{}'",
            wanted.device.type_name(),
            self.0.place.device.type_name()
        ))
    }
    /// Draw on the host.
    pub(crate) fn draw<R>(&self, f: impl FnOnce(&mut HostGenerator) -> R) -> Result<R> {
        match &mut *self.engine() {
            Engine::Host(g) => Ok(f(g)),
            Engine::Device { .. } => Err(self.wrong_device(Place::CPU)),
        }
    }
    /// Random bits on a device: `int64` elements if `wide`, else `int32`.
    pub(crate) fn bits(&self, dims: Dims, wide: bool, place: Place) -> Result<Tensor> {
        let mut engine = self.engine();
        let Engine::Device { seed, counter, state } = &mut *engine else { return Err(self.wrong_device(place)) };
        if self.0.place != place {
            return Err(self.wrong_device(place));
        }
        state::no_grad(|| {
            let now = match state.take() {
                Some(s) => s,
                None => Tensor::from_slice_on(&[*seed as i64, *counter as i64], &[2], place)?,
            };
            let mut y = dispatch::call_n(Prim::RandomBits(RandomBits { dims, wide }), &[&now])?;
            let bits = y.pop().expect("two outputs");
            *state = y.pop();
            Ok(bits)
        })
    }
}

static CPU: OnceLock<Generator> = OnceLock::new();
/// The default generators that have drawn or were seeded, one for each place.
static DEVICES: Mutex<Vec<Generator>> = Mutex::new(Vec::new());
/// The seed from `manual_seed`, for default generators that are made later.
static SEED: Mutex<Option<u64>> = Mutex::new(None);

/// A number that differs from run to run.
fn fresh_seed() -> u64 {
    HostGenerator::new(0).seed()
}

/// The default generator of a device. Its numbers differ in each run until [`manual_seed`] is called.
pub fn default_generator(device: impl Into<Place>) -> Generator {
    let place = device.into();
    if !place.has_handle() {
        return CPU.get_or_init(|| Generator::new(fresh_seed())).clone();
    }
    let mut known = DEVICES.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(g) = known.iter().find(|g| g.0.place == place) {
        return g.clone();
    }
    let seed = *SEED.lock().unwrap_or_else(|e| e.into_inner());
    let g = Generator::on(place, seed.unwrap_or_else(fresh_seed));
    known.push(g.clone());
    g
}

/// Seed the default generators of all devices, as `torch.manual_seed` does.
pub fn manual_seed(seed: u64) {
    default_generator(Device::CPU).manual_seed(seed);
    manual_seed_devices(seed);
}

/// Seed the default generators of all `tpu` devices, as `torch.tpu.manual_seed_all` does.
pub fn manual_seed_devices(seed: u64) {
    let known = DEVICES.lock().unwrap_or_else(|e| e.into_inner());
    *SEED.lock().unwrap_or_else(|e| e.into_inner()) = Some(seed);
    known.iter().for_each(|g| g.manual_seed(seed));
}

/// Seed all default generators with a number that differs from run to run, and return it, as `torch.seed` does.
pub fn seed() -> u64 {
    let seed = fresh_seed();
    manual_seed(seed);
    seed
}

/// The seed of the default `cpu` generator, as `torch.initial_seed` returns it.
pub fn initial_seed() -> u64 {
    default_generator(Device::CPU).initial_seed()
}
