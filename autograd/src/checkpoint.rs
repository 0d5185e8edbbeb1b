//! Checkpointing: recompute instead of keeping memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use torchtpu_tensor::ops::convert::barrier;
use torchtpu_tensor::random::{Generator, Snapshot, default_generator};
use torchtpu_tensor::saved::{Packed, SavedHooks, SavedTensorHooks};
use torchtpu_tensor::{Error, GradMode, Meta, Place, Result, Tensor, autocast};

type Work = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

/// A checkpoint: the function, its inputs, and the state of the random number generators.
struct Frame {
    work: Box<Work>,
    inputs: Vec<Tensor>,
    random: Vec<(Generator, Snapshot)>,
    autocast: autocast::Settings,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Metadata of the tensors that the forward run would have saved, in order.
    expected: Vec<Meta>,
    /// The same tensors from a second run, until they are fetched.
    again: Vec<Option<Tensor>>,
}

impl Frame {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Hooks of the first run: store only the metadata of saved tensors.
struct Count(Arc<Frame>);

impl SavedTensorHooks for Count {
    fn pack(&self, x: &Tensor) -> Result<Packed> {
        let expected = &mut self.0.state().expected;
        expected.push(*x.meta());
        Ok(Box::new(expected.len() - 1))
    }
    fn unpack(&self, kept: &Packed) -> Result<Tensor> {
        let i = *kept.downcast_ref::<usize>().expect("made by pack");
        let fetch = || self.0.state().again.get_mut(i).and_then(Option::take);
        if let Some(t) = fetch() {
            return Ok(t);
        }
        recompute(&self.0)?;
        fetch().ok_or_else(|| {
            Error::runtime(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and \
                recomputation.",
            )
        })
    }
}

/// Hooks of the second run: collect the saved tensors.
struct Collect {
    frame: Arc<Frame>,
    found: Mutex<Vec<Option<Tensor>>>,
    done: AtomicBool,
}

impl SavedTensorHooks for Collect {
    fn pack(&self, x: &Tensor) -> Result<Packed> {
        let mut found = self.found.lock().unwrap_or_else(|e| e.into_inner());
        let expected = self.frame.state().expected.get(found.len()).copied();
        match expected {
            Some(m) if m == *x.meta() => found.push(Some(x.detach())),
            Some(m) => {
                return Err(Error::runtime(format!(
                    "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than \
                    during the forward pass.\ntensor at position {}:\nsaved metadata: {m:?}\nrecomputed metadata: {:?}",
                    found.len(),
                    x.meta()
                )));
            }
            None => {}
        }
        if found.len() == self.frame.state().expected.len() {
            // Backward now has all tensors that it needs, so stop the function here.
            self.done.store(true, Relaxed);
            return Err(Error::runtime("the recomputation of a checkpoint is complete"));
        }
        Ok(Box::new(()))
    }
    fn unpack(&self, _: &Packed) -> Result<Tensor> {
        Err(Error::runtime("backward within the recomputation of a checkpoint is not supported"))
    }
}

fn recompute(frame: &Arc<Frame>) -> Result<()> {
    let now: Vec<(Generator, Snapshot)> = frame.random.iter().map(|(g, _)| (g.clone(), g.snapshot())).collect();
    for (g, then) in &frame.random {
        g.restore(then)?;
    }
    let collect = Arc::new(Collect { frame: frame.clone(), found: Mutex::default(), done: AtomicBool::new(false) });
    let result = {
        let _mode = GradMode::set(true);
        let _autocast = frame.autocast.again();
        let inputs: Vec<Tensor> = frame
            .inputs
            .iter()
            .map(|t| {
                let fresh = barrier(&t.detach())?;
                if t.requires_grad() {
                    fresh.requires_grad_(true)?;
                }
                Ok(fresh)
            })
            .collect::<Result<_>>()?;
        let _hooks = SavedHooks::push(collect.clone())?;
        (frame.work)(&inputs)
    };
    for (g, state) in &now {
        g.restore(state)?;
    }
    match result {
        Err(e) if !collect.done.load(Relaxed) => return Err(e),
        _ => {}
    }
    frame.state().again = std::mem::take(&mut *collect.found.lock().unwrap_or_else(|e| e.into_inner()));
    Ok(())
}

/// Run `f` on `x` without saving tensors for backward. Backward runs `f` again, with the same random numbers, and saves
/// them then. Tensors that `f` captures get their gradients too.
///
/// ```
/// use torchtpu_tensor::Tensor;
/// let x = Tensor::from_slice(&[0.5f64, 1.0], &[2])?;
/// x.requires_grad_(true)?;
/// let y = torchtpu_autograd::checkpoint(|x| Ok(vec![x[0].exp()?.sin()?]), &[&x])?;
/// torchtpu_autograd::backward(&[y[0].sum()?], &[], None, false, None)?;
/// let want = x.detach().exp()?.mul(&x.detach().exp()?.cos()?)?;
/// assert_eq!(x.grad().unwrap().to_vec::<f64>()?, want.to_vec::<f64>()?);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
///
/// # Errors
/// Returns the error of `f`. Backward fails with `Runtime` if the second run saves other tensors than the first.
pub fn checkpoint(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    x: &[&Tensor],
) -> Result<Vec<Tensor>> {
    let inputs: Vec<Tensor> = x.iter().map(|t| (*t).clone()).collect();
    if !torchtpu_tensor::state::grad_enabled() {
        return f(&inputs);
    }
    let mut places = vec![Place::CPU];
    for t in x {
        if t.place().has_handle() && !places.contains(&t.place()) {
            places.push(t.place());
        }
    }
    let random = places
        .into_iter()
        .map(|d| {
            let g = default_generator(d);
            let now = g.snapshot();
            (g, now)
        })
        .collect();
    let (autocast, state) = (autocast::Settings::now(), Mutex::default());
    let frame = Arc::new(Frame { work: Box::new(f), inputs: inputs.clone(), random, autocast, state });
    let _hooks = SavedHooks::push(Arc::new(Count(frame.clone())))?;
    (frame.work)(&inputs)
}

/// A function of one tensor.
pub type Layer = Box<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

/// Run functions one after the other in `segments` pieces. Each piece but the last is a [`checkpoint`].
///
/// # Errors
/// Fails like [`checkpoint`], and with `Value` for zero segments.
pub fn checkpoint_sequential(functions: Vec<Layer>, segments: usize, x: &Tensor) -> Result<Tensor> {
    if segments == 0 {
        return Err(Error::value("checkpoint_sequential: segments must be greater than 0"));
    }
    let size = (functions.len() / segments).max(1);
    let mut x = x.clone();
    let mut rest = functions;
    for i in 0..segments {
        let last = i + 1 == segments || rest.len() <= size;
        let tail = if last { Vec::new() } else { rest.split_off(size) };
        let piece = std::mem::replace(&mut rest, tail);
        let run = move |x: &[Tensor]| {
            let mut x = x[0].clone();
            for f in &piece {
                x = f(&x)?;
            }
            Ok(vec![x])
        };
        if last {
            return Ok(run(&[x])?.swap_remove(0));
        }
        x = checkpoint(run, &[&x])?.swap_remove(0);
    }
    Ok(x)
}
