//! The path from a call to its execution, the same for all ops.
//!
//! A call passes four slots, in this order: autocast, autograd, functionalise and execute. Autocast is [`autocast`],
//! and autograd is [`graph::record`](crate::graph). Functionalise is the writing side of views ([`view`](crate::view),
//! [`inplace`]), since ops themselves are pure. Execute runs a kernel, records in a trace, or does
//! nothing, by device.

use super::stored;
use crate::op::{Layout, Outs, Prim, Saves, Strides, bit};
use crate::ops::shape::AsStrided;
use crate::view::ViewInfo;
use crate::{
    Dims, Error, ErrorKind, Held, MemoryFormat, Meta, Rep, Result, Tensor, autocast, backend, fake, foreign, graph,
    inplace, state, strides,
};
use smallvec::{SmallVec, smallvec};

/// Whether a test counts ops or a thread casts for them, so that calls must not take shortcuts.
#[inline(always)]
pub(crate) fn is_unusual() -> bool {
    state::is_unusual()
}

/// Record an op on the device whose result is contiguous and has the sizes, dtype and device of `a`.
#[inline]
pub(crate) fn record_twin(op: &Prim, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let operands = [backend::Operand::Value(a.device_value()?), backend::Operand::Value(b.device_value()?)];
    Ok(a.device_twin(backend::record_one(op, &operands, a.meta())?))
}

/// Run an op with one output.
#[inline]
pub fn call(op: Prim, x: &[&Tensor]) -> Result<Tensor> {
    if is_unusual() {
        return call_unusual(op, x);
    }
    call_ordinary(op, x)
}

/// [`call`] while some thread is observed, casts, or is in inference mode.
#[cold]
fn call_unusual(op: Prim, x: &[&Tensor]) -> Result<Tensor> {
    notify_observer(&op, x);
    if let Some(y) = foreign::intercepted(&op, x) {
        return y.map(|mut y| y.swap_remove(0));
    }
    if let Some(x) = autocast::operands(&op, x)? {
        let _suspended = autocast::Suspended::new();
        return call(op, &x.iter().collect::<SmallVec<[&Tensor; 4]>>());
    }
    let y = call_ordinary(op, x)?;
    if state::is_inference() {
        y.mark_inference();
    }
    Ok(y)
}

#[inline(always)]
fn call_ordinary(op: Prim, x: &[&Tensor]) -> Result<Tensor> {
    let grad = graph::may_need_grad(x);
    let meta = match op.infer(x) {
        Ok(m) => m,
        Err(e) => return otherwise(op, x, e, call, |y, f| f(y)),
    };
    if grad && !op.has_vjp() {
        return expand(&op, x).map(|mut y| y.swap_remove(0));
    }
    let y = if x.iter().any(|t| !t.is_plain()) {
        call_strided(&op, x, meta)?
    } else if meta.place.in_memory() && op.has_kernel() {
        let y = Tensor::empty(&meta)?;
        match op.kernel(x, std::slice::from_ref(&y)) {
            Ok(()) => y,
            Err(e) => return Err(e.in_op(op.name())),
        }
    } else {
        execute(&op, x, meta)?.swap_remove(0)
    };
    if grad {
        graph::record(op, x, std::slice::from_ref(&y))?;
    }
    Ok(y)
}

/// Run an op that changes some elements of operand `at`. Within [`inplace::update`] its kernel writes these elements in
/// the memory of the operand, so the call costs as much as they do. It does not if an operand lies in that memory, or
/// if backward needs the old or the new elements.
pub(crate) fn call_update(op: Prim, x: &[&Tensor], at: usize) -> Result<Tensor> {
    if !inplace::is_destination(x[at]) {
        return call(op, x);
    }
    if is_unusual() {
        if foreign::is_intercepted(x) || autocast::operands(&op, x)?.is_some() {
            return call(op, x);
        }
        notify_observer(&op, x);
    }
    let grad = graph::may_need_grad(x);
    let saves = if grad { op.saves(u64::MAX) } else { Saves::NONE };
    let is_possible = op.has_kernel()
        && (!grad || op.has_vjp() && saves.x & bit(at) == 0 && saves.y == 0)
        && op.infer(x).is_ok_and(|meta| meta == *x[at].meta());
    if !is_possible {
        return call_ordinary(op, x);
    }
    let others: SmallVec<[&Tensor; 4]> = (0..x.len()).filter(|&i| i != at).map(|i| x[i]).collect();
    let Some(y) = inplace::destination(x[at], &others)? else { return call_ordinary(op, x) };
    op.kernel(x, std::slice::from_ref(&y)).map_err(|e| e.in_op(op.name()))?;
    if grad {
        graph::record(op, x, std::slice::from_ref(&y))?;
    }
    Ok(y)
}

/// Call `op` again with operands of a dtype that it takes, or on the device of the others, or fail with the error of
/// the first call. `first` applies a function to the first result.
#[cold]
fn otherwise<R>(
    op: Prim,
    x: &[&Tensor],
    error: Error,
    call: impl FnOnce(Prim, &[&Tensor]) -> Result<R>,
    first: impl FnOnce(R, &dyn Fn(Tensor) -> Result<Tensor>) -> Result<R>,
) -> Result<R> {
    if let Some(wide) = stored::widened(&op, x)? {
        let y = call(op, &wide.x.iter().collect::<SmallVec<[&Tensor; 4]>>())?;
        return first(y, &|y| wide.narrowed(y));
    }
    match backend::adopted(x)? {
        None if error.kind() == ErrorKind::Assertion => {
            Err(Error::new(ErrorKind::Assertion, format!("{error} Found in {}", fake::described(&op, x))))
        }
        None => Err(error.in_op(op.name())),
        Some(x) => call(op, &x.iter().collect::<SmallVec<[&Tensor; 4]>>()),
    }
}

/// Run an op with an operand that has other strides than a new tensor, or that holds conjugates or negatives.
#[inline(never)]
fn call_strided(op: &Prim, x: &[&Tensor], meta: Meta) -> Result<Tensor> {
    match op.strides() {
        Strides::Elementwise => run_with(op, x, meta, strides::elementwise(x, &meta.dims)),
        Strides::Copied => run_with(op, x, meta, Some(strides::preserved(x[0]))),
        _ => Ok(arranged(op, x, execute(op, x, meta)?)?.swap_remove(0)),
    }
}

/// Results of an op with the strides that its rule states. Kernels leave them row major.
fn arranged(op: &Prim, x: &[&Tensor], mut y: Outs) -> Result<Outs> {
    let rule = op.strides();
    for t in &mut y {
        let same_rank = |x: &&&Tensor| x.dims().len() == t.dims().len();
        let format = |x: &[&Tensor]| {
            x.iter().filter(same_rank).map(|x| x.suggested_format()).find(|f| *f != MemoryFormat::Contiguous)
        };
        let strides = match rule {
            // If the device has no such op, the parts of its expansion may have kept an order of dimensions.
            Strides::RowMajor if op.has_kernel() && !t.place().in_memory() => t.dims().contiguous_strides(),
            Strides::RowMajor | Strides::Elementwise | Strides::Copied => continue,
            Strides::Like if t.dims() == x[0].dims() => strides::preserved(x[0]),
            Strides::Like => continue,
            Strides::Format => match format(&x[..x.len().min(2)]) {
                Some(f) => f.strides(t.dims())?,
                None => continue,
            },
            Strides::CommonFormat => match x[0].suggested_format() {
                f if f != MemoryFormat::Contiguous && x.iter().all(|x| x.suggested_format() == f) => {
                    f.strides(t.dims())?
                }
                _ => continue,
            },
        };
        if *t.strides() == strides || t.numel() == 0 {
            continue;
        }
        if !t.place().in_memory() && t.handle_count() == 1 && t.view_info().is_none() {
            *t = std::mem::replace(t, x[0].clone()).with_strides(strides);
        } else {
            *t = state::no_grad(|| copy_with(&t.detach(), strides))?;
        }
    }
    Ok(y)
}

/// Run an op whose result has these strides; `None` is row major. Only the kernels of element-wise ops write other
/// strides.
fn run_with(op: &Prim, x: &[&Tensor], meta: Meta, strides: Option<Dims>) -> Result<Tensor> {
    let Some(strides) = strides else {
        return Ok(execute(op, x, meta)?.swap_remove(0));
    };
    if !meta.place.in_memory() {
        let y = execute(op, x, meta)?.swap_remove(0);
        // Results of an expansion already have their strides.
        return Ok(if *y.strides() == strides || y.handle_count() > 1 { y } else { y.with_strides(strides) });
    }
    if !op.has_kernel() {
        return Ok(expand_whole(op, x)?.swap_remove(0));
    }
    let y = Tensor::empty_with(&meta, strides)?;
    if x.iter().any(|t| t.is_lazy()) {
        run_resolved(op, x, std::slice::from_ref(&y))?;
    } else {
        op.kernel(x, std::slice::from_ref(&y)).map_err(|e| e.in_op(op.name()))?;
    }
    Ok(y)
}

/// A copy of `x` with these strides, which leave no gaps.
pub(crate) fn copy_with(x: &Tensor, strides: Dims) -> Result<Tensor> {
    let op = Prim::Copy(crate::ops::convert::Copy);
    if is_unusual() {
        notify_observer(&op, &[x]);
        if let Some(y) = foreign::intercepted(&op, &[x]) {
            return y.map(|mut y| y.swap_remove(0));
        }
    }
    let grad = graph::may_need_grad(&[x]);
    let y = run_with(&op, &[x], *x.meta(), Some(strides))?;
    if grad {
        graph::record(op, &[x], std::slice::from_ref(&y))?;
    }
    Ok(y)
}

/// Run an op with any number of outputs.
pub fn call_n(op: Prim, x: &[&Tensor]) -> Result<Outs> {
    if is_unusual() {
        notify_observer(&op, x);
        if let Some(y) = foreign::intercepted(&op, x) {
            return y;
        }
        if let Some(x) = autocast::operands(&op, x)? {
            let _suspended = autocast::Suspended::new();
            return call_n(op, &x.iter().collect::<SmallVec<[&Tensor; 4]>>());
        }
        let y = call_n_ordinary(op, x)?;
        if state::is_inference() {
            y.iter().for_each(Tensor::mark_inference);
        }
        return Ok(y);
    }
    call_n_ordinary(op, x)
}

fn call_n_ordinary(op: Prim, x: &[&Tensor]) -> Result<Outs> {
    let grad = graph::may_need_grad(x);
    let meta = match op.infer(x) {
        Ok(m) => m,
        Err(e) => {
            return otherwise(op, x, e, call_n, |mut y, f| {
                y[0] = f(y[0].clone())?;
                Ok(y)
            });
        }
    };
    if grad && !op.has_vjp() {
        return expand(&op, x);
    }
    let mut y = execute(&op, x, meta)?;
    if x.iter().any(|t| !t.is_contiguous()) {
        y = arranged(&op, x, y)?;
    }
    if grad {
        graph::record(op, x, &y)?;
    }
    Ok(y)
}

type Observer = Box<dyn Fn(&Prim, &[&Tensor]) + Send + Sync>;
static OBSERVER: std::sync::OnceLock<Observer> = std::sync::OnceLock::new();

/// Call `f` with every op that is recorded for backward or run, and its operands, from now on. The first observer
/// stays. This is for tests that count ops.
pub fn observe(f: impl Fn(&Prim, &[&Tensor]) + Send + Sync + 'static) {
    if OBSERVER.set(Box::new(f)).is_ok() {
        state::UNUSUAL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cold]
fn notify_observer(op: &Prim, x: &[&Tensor]) {
    if let Some(f) = OBSERVER.get() {
        f(op, x);
    }
}

/// Expand a fused op. Autocast casts nothing for its parts.
fn expand(op: &Prim, x: &[&Tensor]) -> Result<Outs> {
    let _suspended = is_unusual().then(autocast::Suspended::new);
    op.expand(x)
}

/// [`expand`] as one op, without history. The bases of views among its parts were made inside, so the results are no
/// views to callers.
///
/// # Errors
/// The errors of the ops that it consists of.
pub fn expand_whole(op: &Prim, x: &[&Tensor]) -> Result<Outs> {
    let mut y = state::no_grad(|| expand(op, x))?;
    for t in &mut y {
        let is_view = t.view_info().is_some_and(|v| !v.is_detached());
        if is_view && !x.iter().any(|x| x.shares_storage(t)) {
            *t = t.shallow_alias()?;
        }
    }
    Ok(y)
}

fn metas(op: &Prim, x: &[&Tensor], first: Meta) -> SmallVec<[Meta; 2]> {
    let mut m: SmallVec<[Meta; 2]> = smallvec![first];
    for i in 1..op.outs() {
        m.push(op.infer_extra(x, &first, i));
    }
    m
}

fn execute(op: &Prim, x: &[&Tensor], first: Meta) -> Result<Outs> {
    if first.place.rep == Rep::Foreign {
        // It has no foreign operands, which would have been intercepted.
        return execute(op, x, foreign::made_dense(&first));
    }
    let metas = metas(op, x, first);
    match first.place.held() {
        Held::Abstract => metas.iter().map(Tensor::empty).collect(),
        Held::Memory => {
            if !op.has_kernel() {
                return expand_whole(op, x);
            }
            let y: Outs = metas.iter().map(Tensor::empty).collect::<Result<_>>()?;
            if x.iter().any(|t| t.is_lazy()) {
                run_resolved(op, x, &y)?;
            } else {
                op.kernel(x, &y).map_err(|e| e.in_op(op.name()))?;
            }
            Ok(y)
        }
        Held::Handle => {
            if first.place.is_tpu() {
                backend::check_exists(first.place.device)?;
                if !op.has_lower(x) {
                    return expand_whole(op, x);
                }
            }
            if let ([a, b], [m]) = (x, &metas[..]) {
                // This is the commonest case; it needs no lists that grow.
                let handle = backend::record_one(op, &[backend::operand(a)?, backend::operand(b)?], m)?;
                return Ok(smallvec![Tensor::from_device_value(m, handle)]);
            }
            let operands: SmallVec<[backend::Operand<'_>; 4]> =
                x.iter().map(|t| backend::operand(t)).collect::<Result<_>>()?;
            let mut handles: SmallVec<[u64; 4]> = smallvec![0; metas.len()];
            backend::of(first.place)?.record(op, &operands, &metas, &mut handles)?;
            Ok(metas.iter().zip(handles).map(|(m, h)| Tensor::from_device_value(m, h)).collect())
        }
    }
}

/// Run a kernel on copies of the inputs whose memory holds conjugates or negatives.
#[cold]
fn run_resolved(op: &Prim, x: &[&Tensor], y: &[Tensor]) -> Result<()> {
    let held: SmallVec<[Tensor; 4]> = x.iter().map(|t| t.resolved()).collect::<Result<_>>()?;
    let x: SmallVec<[&Tensor; 4]> = held.iter().collect();
    op.kernel(&x, y).map_err(|e| e.in_op(op.name()))
}

/// Make a view and record it.
pub fn call_view(op: Prim, x: &Tensor) -> Result<Tensor> {
    if is_unusual() {
        notify_observer(&op, &[x]);
        let own = match &op {
            // History needs the window among the operand's own elements.
            Prim::AsStrided(w) if !w.own && foreign::is_foreign(x) => w.within(x).map(|w| Prim::AsStrided(Box::new(w))),
            _ => None,
        };
        if let Some(y) = foreign::intercepted(own.as_ref().unwrap_or(&op), &[x]) {
            return y.map(|mut y| y.swap_remove(0));
        }
    }
    debug_assert!(op.is_view());
    if let Prim::AsStrided(w) = &op
        && !w.own
    {
        let begins = begins_at_view(w, x);
        if begins || has_own_history(x) {
            match w.within(x) {
                Some(own) => return call_view(Prim::AsStrided(Box::new(own)), x),
                None if begins || inplace::repeats_elements(x) => return w.beyond(x),
                None => {}
            }
        }
    }
    let seen;
    let untracked = |v: &ViewInfo| {
        // A later write may give history to a view of a tensor that owns its storage.
        (v.is_detached() || v.base.view_info().is_some())
            && !(state::grad_enabled() && (x.requires_grad() || v.base.requires_grad()))
    };
    let (x, needs) = match (&op, x.view_info()) {
        // On a device, a detached view has only its own value, but the window's places are those of the storage's
        // owner.
        (Prim::AsStrided(w), _) if w.own => (x, (x.has_autograd() || x.view_info().is_some()) && x.requires_grad()),
        (Prim::AsStrided(_), Some(v)) if x.place().has_handle() && untracked(v) => {
            let mut owner = v.base.clone();
            while let Some(b) = owner.view_info().map(|v| v.base.clone()) {
                owner = b;
            }
            let detached = owner.detach();
            seen = if x.dtype() != owner.dtype() || x.is_lazy() { detached.seen_as(x)? } else { detached };
            (&seen, false)
        }
        // The window refers to the storage in this view's dtype.
        (Prim::AsStrided(_), Some(v)) if !v.is_detached() && (x.dtype() != v.base.dtype() || x.is_lazy()) => {
            seen = v.base.seen_as(x)?;
            (&seen, seen.requires_grad())
        }
        // The window refers to the storage, so its history starts at the base.
        (Prim::AsStrided(_), Some(v)) if !v.is_detached() => (&v.base, v.base.requires_grad()),
        _ => (x, (x.has_autograd() || x.view_info().is_some()) && x.requires_grad()),
    };
    // The window refers to memory. If the order of the elements matters, view them in their order in memory.
    let ordered;
    let x = match &op {
        Prim::AsStrided(w) if !w.own && (needs || x.place().has_handle()) => {
            ordered = x.in_memory_order()?;
            &ordered
        }
        _ => x,
    };
    let l = op.layout(&Layout::of(x)).map_err(|e| e.in_op(op.name()))?;
    let meta = x.meta().with_dims(l.dims).with_dtype(op.view_dtype(x.dtype()));
    if !(needs && state::grad_enabled()) {
        return x.make_view(op, &meta, l.strides, l.offset);
    }
    let y = x.make_view(op.clone(), &meta, l.strides, l.offset)?;
    graph::record(op, &[x], std::slice::from_ref(&y))?;
    Ok(y)
}

/// Whether `x` is a view with a node of its own, whose hooks a window in its elements must not leave out.
pub(crate) fn has_own_history(x: &Tensor) -> bool {
    state::grad_enabled() && x.view_info().is_some_and(|v| !v.is_detached()) && x.requires_grad() && x.numel() > 0
}

/// Whether the history of a window on the storage begins at `x`, a view, or a tensor that does not hold its storage
/// from the start and row major, such as a parameter whose `data` is a view.
fn begins_at_view(w: &AsStrided, x: &Tensor) -> bool {
    let base = match x.view_info() {
        Some(v) if !v.is_detached() => &v.base,
        _ => x,
    };
    if !state::grad_enabled() || !(x.requires_grad() || base.requires_grad()) || x.numel() == 0 {
        return false;
    }
    // A conjugated base, such as a parameter that was made from a conjugate, does not show the storage.
    let is_plain = base.storage_offset() == 0 && !base.is_lazy() && base.is_dense();
    let begins_storage = is_plain && w.end() <= base.numel();
    let seen_otherwise = is_plain && (x.dtype() != base.dtype() || x.is_lazy());
    !((begins_storage || seen_otherwise) && (base.requires_grad() || !x.requires_grad()))
}

/// Run a pointwise op that writes its result into `out`, which has the inferred description, needs no gradient and is
/// on `cpu`. Return `false` and do nothing if `out` does not fit.
#[inline]
pub(crate) fn call_into(op: &Prim, x: &[&Tensor], out: &Tensor) -> Result<bool> {
    if !out.place().in_memory() || graph::may_need_grad(x) || out.requires_grad() {
        return Ok(false);
    }
    let meta = op.infer(x).map_err(|e| e.in_op(op.name()))?;
    if meta != *out.meta()
        || !op.has_kernel()
        || out.is_written_with_care()
        || crate::overlap::overlaps_itself(out)
        || x.iter().any(|t| t.is_lazy() || partly_overlaps(t, out))
    {
        return Ok(false);
    }
    op.kernel(x, std::slice::from_ref(out)).map_err(|e| e.in_op(op.name()))?;
    out.bump_version();
    Ok(true)
}

/// Whether writing `out` element by element could change elements of `x` before they are read.
fn partly_overlaps(x: &Tensor, out: &Tensor) -> bool {
    x.shares_storage(out)
        && !(x.dims() == out.dims() && x.strides() == out.strides() && x.storage_offset() == out.storage_offset())
}

impl Prim {
    /// Description of the result of a view op on a value with this description.
    ///
    /// # Errors
    /// Those of the op.
    pub fn view_meta(&self, x: &Meta) -> Result<Meta> {
        let l = Layout::contiguous(x.dims);
        Ok(x.with_dims(self.layout(&l)?.dims).with_dtype(self.view_dtype(x.dtype)))
    }
}

/// Refuse a value whose sizes an in-place op cannot store.
pub(crate) fn check_same_dims(x: &Tensor, dims: &Dims) -> Result<()> {
    if x.dims() == dims {
        return Ok(());
    }
    Err(Error::runtime(format!("output with shape {} doesn't match the broadcast shape {}", x.dims(), dims)))
}
