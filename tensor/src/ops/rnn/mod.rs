//! Recurrent layers: LSTM, GRU and the simple layer, over whole sequences, packed sequences, and single steps.
//!
//! The products with the input do not depend on the state, so those of all steps are one product. A step then costs one
//! product of its own and the arithmetic of the gates. A layer without projection over sequences of one length is one
//! node of the trace ([`Recurrence`]). With projections, or packed, it consists of the nodes of its steps.

pub(crate) mod recurrence;

pub use recurrence::{Recurrence, RecurrenceBackward};

use crate::ops::concat::{cat, stack};
use crate::ops::dropout::dropout;
use crate::ops::matmul::linear;
use crate::ops::rnn::recurrence::{Eager, forward_step, recurrence};
use crate::policy::{Policies, Policy};
use crate::schema::{Args, Fill, Ret, Row, Sample, SampleArg, Scope, Tier, n, t};
use crate::{Error, Result, Tensor, samples};
use torchtpu_kernels::memory;

/// The kind of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Long short-term memory: a hidden state and a cell state.
    Lstm,
    /// Gated recurrent unit.
    Gru,
    /// `tanh` of the sum of both products.
    Tanh,
    /// `relu` of the sum of both products.
    Relu,
}

impl Kind {
    /// Number of rows of the weights for each hidden unit.
    pub fn gates(self) -> usize {
        match self {
            Kind::Lstm => 4,
            Kind::Gru => 3,
            Kind::Tanh | Kind::Relu => 1,
        }
    }
    fn has_cell_state(self) -> bool {
        self == Kind::Lstm
    }
}

/// Settings of a layer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Number of layers on top of each other.
    pub num_layers: usize,
    /// Whether there are biases.
    pub bias: bool,
    /// Probability with which outputs between layers are dropped in training.
    pub dropout: f64,
    /// Whether dropout is on.
    pub train: bool,
    /// Whether every layer also runs from the last step to the first.
    pub bidirectional: bool,
}

/// Parameters of one layer in one direction.
#[derive(Clone, Copy)]
pub struct Weights<'a> {
    /// `[gates * hidden, input]`.
    pub ih: &'a Tensor,
    /// `[gates * hidden, hidden]`.
    pub hh: &'a Tensor,
    /// `[gates * hidden]`.
    pub b_ih: Option<&'a Tensor>,
    /// `[gates * hidden]`.
    pub b_hh: Option<&'a Tensor>,
    /// LSTM only: `[projection, hidden]`.
    pub hr: Option<&'a Tensor>,
}

/// The state that a layer carries from step to step.
#[derive(Clone)]
pub struct State {
    /// Hidden state, `[batch, hidden]`.
    pub h: Tensor,
    /// Cell state of an LSTM.
    pub c: Option<Tensor>,
}

impl State {
    fn rows(&self, start: usize, length: usize) -> Result<State> {
        let part = |x: &Tensor| x.narrow(0, start as i64, length as i64);
        Ok(State { h: part(&self.h)?, c: self.c.as_ref().map(part).transpose()? })
    }
    /// The states, concatenated in the batch dimension.
    fn joined(parts: &[State]) -> Result<State> {
        if let [one] = parts {
            return Ok(one.clone());
        }
        let h = cat(&parts.iter().map(|s| &s.h).collect::<Vec<_>>(), 0)?;
        let c: Vec<&Tensor> = parts.iter().filter_map(|s| s.c.as_ref()).collect();
        Ok(State { h, c: if c.is_empty() { None } else { Some(cat(&c, 0)?) } })
    }
}

/// One step, from the products with the input.
fn step(kind: Kind, gx: &Tensor, s: &State, w: &Weights<'_>) -> Result<State> {
    let gh = linear(&s.h, w.hh, w.b_hh)?;
    let hidden = gx.dims()[gx.dims().len() - 1] / kind.gates();
    let next = forward_step(&mut Eager, kind, hidden, gx, &gh, &s.h, s.c.as_ref())?;
    let h = match w.hr {
        Some(hr) => linear(&next.h, hr, None)?,
        None => next.h,
    };
    Ok(State { h, c: next.c })
}

/// The steps of one layer in one direction over `[steps, batch, features]`.
fn run(kind: Kind, x: &Tensor, mut s: State, w: &Weights<'_>, reverse: bool) -> Result<(Tensor, State)> {
    if x.dims()[0] == 0 {
        return Err(Error::runtime("Expected sequence length to be larger than 0 in RNN"));
    }
    let gx = linear(x, w.ih, w.b_ih)?;
    if w.hr.is_none() {
        let all = recurrence(kind, &gx, &s.h, s.c.as_ref(), w.hh, w.b_hh, reverse)?;
        let last = if reverse { 0 } else { -1 };
        let c = if s.c.is_some() { Some(all[1].select(0, last)?) } else { None };
        return Ok((all[0].clone(), State { h: all[0].select(0, last)?, c }));
    }
    let gx = gx.unbind(0)?;
    let mut out: Vec<Tensor> = Vec::with_capacity(gx.len());
    let mut visit = |gx: &Tensor| -> Result<()> {
        s = step(kind, gx, &s, w)?;
        out.push(s.h.clone());
        Ok(())
    };
    if reverse {
        gx.iter().rev().try_for_each(&mut visit)?
    } else {
        gx.iter().try_for_each(&mut visit)?
    }
    if reverse {
        out.reverse();
    }
    Ok((stack(&out.iter().collect::<Vec<_>>(), 0)?, s))
}

/// [`run`] over rows sorted by step. Step `t` has `sizes[t]` rows, never more than the step before.
fn run_packed(
    kind: Kind,
    x: &Tensor,
    sizes: &[i64],
    start: &State,
    w: &Weights<'_>,
    reverse: bool,
) -> Result<(Tensor, State)> {
    let gx = linear(x, w.ih, w.b_ih)?;
    let is_packed = sizes.last().is_some_and(|&size| size > 0)
        && sizes.is_sorted_by(|a, b| a >= b)
        && total(sizes) == gx.dims()[0] as i64
        && start.h.dims()[0] as i64 == sizes[0];
    if is_packed && gx.place().has_handle() && w.hr.is_none() {
        return run_padded(kind, &gx, sizes, start, w, reverse);
    }
    let gx = gx.split_sizes(sizes, 0)?;
    let mut out: Vec<Tensor> = Vec::with_capacity(gx.len());
    let last = if reverse {
        // Sequences join when their ends are reached.
        let mut s = start.rows(0, *sizes.last().unwrap_or(&0) as usize)?;
        for (gx, &size) in gx.iter().zip(sizes).rev() {
            let have = s.h.dims()[0];
            if have < size as usize {
                s = State::joined(&[s, start.rows(have, size as usize - have)?])?;
            }
            s = step(kind, gx, &s, w)?;
            out.push(s.h.clone());
        }
        out.reverse();
        s
    } else {
        // Sequences leave when they end. Those that end first are last in the batch.
        let mut s = start.clone();
        let mut ended = Vec::new();
        for (gx, &size) in gx.iter().zip(sizes) {
            let (have, size) = (s.h.dims()[0], size as usize);
            if size < have {
                ended.push(s.rows(size, have - size)?);
                s = s.rows(0, size)?;
            }
            s = step(kind, gx, &s, w)?;
            out.push(s.h.clone());
        }
        ended.push(s);
        ended.reverse();
        State::joined(&ended)?
    };
    Ok((cat(&out.iter().collect::<Vec<_>>(), 0)?, last))
}

/// [`run_packed`] as one loop over all steps and sequences, where steps after the end of a sequence compute unused
/// values. A program of single steps would be as long as the longest sequence, and another one for every set of
/// lengths.
fn run_padded(
    kind: Kind,
    gx: &Tensor,
    sizes: &[i64],
    start: &State,
    w: &Weights<'_>,
    reverse: bool,
) -> Result<(Tensor, State)> {
    let (steps, batch, gates) = (sizes.len() as i64, sizes[0], gx.dims()[1] as i64);
    let rows = || sizes.iter().enumerate().flat_map(|(t, &size)| (0..size).map(move |b| (t as i64, b)));
    // Step t of sequence b is row `first[t] + b`. In reverse, each sequence is reversed on its own.
    let first: Vec<i64> = sizes.iter().scan(0, |at, &size| Some(std::mem::replace(at, *at + size))).collect();
    let length = |b: i64| sizes.partition_point(|&size| size > b) as i64;
    let turned = |t: i64, b: i64| if reverse { length(b) - 1 - t } else { t };
    let mut packed = memory::filled(0, (steps * batch) as usize);
    for (t, b) in rows() {
        packed[(t * batch + b) as usize] = first[turned(t, b) as usize] + b;
    }
    let padded: Vec<i64> = memory::collect(rows().map(|(t, b)| turned(t, b) * batch + b));
    let last: Vec<i64> = (0..batch).map(|b| (length(b) - 1) * batch + b).collect();
    let pick = |x: &Tensor, at: &[i64]| x.index_select(0, &Tensor::from_slice_on(at, &[at.len()], x.place())?);
    let gx = pick(gx, &packed)?.reshape(&[steps, batch, gates])?;
    let all = recurrence(kind, &gx, &start.h, start.c.as_ref(), w.hh, w.b_hh, false)?;
    let flat = |x: &Tensor| x.flatten(0, 1);
    let h = flat(&all[0])?;
    let c = start.c.is_some().then(|| pick(&flat(&all[1])?, &last)).transpose()?;
    Ok((pick(&h, &padded)?, State { h: pick(&h, &last)?, c }))
}

fn grouped<'a>(kind: Kind, params: &[&'a Tensor], o: &Settings) -> Result<Vec<Weights<'a>>> {
    let parts = o.num_layers.saturating_mul(if o.bidirectional { 2 } else { 1 });
    let plain = if o.bias { 4 } else { 2 };
    // Only an LSTM has projections. Their weight comes last.
    let each = if kind.has_cell_state() && params.len() == parts.saturating_mul(plain + 1) { plain + 1 } else { plain };
    if params.len() != parts.saturating_mul(each) || parts == 0 {
        return Err(Error::runtime("got an incorrect number of RNN parameters"));
    }
    let one = |p: &[&'a Tensor]| Weights {
        ih: p[0],
        hh: p[1],
        b_ih: o.bias.then(|| p[2]),
        b_hh: o.bias.then(|| p[3]),
        hr: (each > plain).then(|| p[plain]),
    };
    Ok(params.chunks(each).map(one).collect())
}

/// A stack of layers over `[steps, batch, features]`, or over packed rows with `sizes`. Returns the outputs of the last
/// layer, and the last states of all layers, `[layers * directions, batch, hidden]`.
///
/// # Errors
/// `Runtime`, in PyTorch's wording, when weights, states and input do not fit.
pub fn layers(
    kind: Kind,
    x: &Tensor,
    sizes: Option<&[i64]>,
    start: &State,
    params: &[&Tensor],
    o: &Settings,
) -> Result<(Tensor, State)> {
    let weights = grouped(kind, params, o)?;
    let directions = if o.bidirectional { 2 } else { 1 };
    let rank = if sizes.is_some() { 2 } else { 3 };
    if x.dims().len() != rank {
        return Err(Error::runtime(format!("input must have {rank} dimensions, got {}", x.dims().len())));
    }
    for (what, s) in [Some(&start.h), start.c.as_ref()].into_iter().flatten().enumerate() {
        if s.dims().len() != 3 || s.dims()[0] != weights.len() {
            return Err(Error::runtime(format!(
                "Expected hidden{} size ({}, batch, hidden), got {}",
                if kind.has_cell_state() { format!("[{what}]") } else { String::new() },
                weights.len(),
                s.dims()
            )));
        }
    }
    let mut x = x.clone();
    let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
    for layer in 0..o.num_layers {
        let mut outputs = Vec::with_capacity(directions);
        for direction in 0..directions {
            let at = layer * directions + direction;
            let s = State {
                h: start.h.select(0, at as i64)?,
                c: start.c.as_ref().map(|c| c.select(0, at as i64)).transpose()?,
            };
            let w = &weights[at];
            let given = x.dims()[rank - 1];
            if w.ih.dims().len() != 2 || given != w.ih.dims()[1] {
                return Err(Error::runtime(format!(
                    "input.size(-1) must be equal to input_size. Expected {}, got {given}",
                    w.ih.dims().last().copied().unwrap_or(0)
                )));
            }
            let (y, s) = match sizes {
                Some(sizes) => run_packed(kind, &x, sizes, &s, w, direction == 1)?,
                None => run(kind, &x, s, w, direction == 1)?,
            };
            outputs.push(y);
            last_h.push(s.h);
            last_c.extend(s.c);
        }
        x = if directions == 2 { cat(&[&outputs[0], &outputs[1]], -1)? } else { outputs.swap_remove(0) };
        if o.dropout != 0.0 && o.train && layer + 1 < o.num_layers {
            x = dropout(&x, o.dropout, true)?;
        }
    }
    let h = stack(&last_h.iter().collect::<Vec<_>>(), 0)?;
    let c = if last_c.is_empty() { None } else { Some(stack(&last_c.iter().collect::<Vec<_>>(), 0)?) };
    Ok((x, State { h, c }))
}

/// One step of a layer on `[batch, features]`.
///
/// # Errors
/// `Runtime`, in PyTorch's wording, when weights, states and input do not fit.
pub fn cell(kind: Kind, x: &Tensor, s: &State, w: &Weights<'_>) -> Result<State> {
    for t in [Some(x), Some(&s.h), s.c.as_ref()].into_iter().flatten() {
        if t.dims().len() != 2 {
            return Err(Error::runtime(format!(
                "Expected 2D input (batch x feature), but got {}D input",
                t.dims().len()
            )));
        }
    }
    let (hh, ih) = (w.hh.dims(), w.ih.dims());
    if hh.len() != 2 || ih.len() != 2 {
        return Err(Error::runtime("weights of a recurrent cell must have 2 dimensions"));
    }
    if x.dims()[1] != ih[1] {
        return Err(Error::runtime(format!(
            "input has inconsistent input_size: got {} expected {}",
            x.dims()[1],
            ih[1]
        )));
    }
    for (i, t) in [Some(&s.h), s.c.as_ref()].into_iter().flatten().enumerate() {
        if t.dims()[0] != x.dims()[0] {
            return Err(Error::runtime(format!(
                "Input batch size {} doesn't match hidden{i} batch size {}",
                x.dims()[0],
                t.dims()[0]
            )));
        }
        if t.dims()[1] != hh[1] {
            return Err(Error::runtime(format!(
                "hidden{i} has inconsistent hidden_size: got {}, expected {}",
                t.dims()[1],
                hh[1]
            )));
        }
    }
    if ih[0] != kind.gates() * hh[1] {
        return Err(Error::runtime(format!(
            "weight_ih first dim must be {} * hidden_size = {}, but got {}",
            kind.gates(),
            kind.gates() * hh[1],
            ih[0]
        )));
    }
    step(kind, &linear(x, w.ih, w.b_ih)?, s, w)
}

fn states(kind: Kind, a: &Args<'_>, i: usize) -> Result<State> {
    if !kind.has_cell_state() {
        return Ok(State { h: a.tensor(i)?.clone(), c: None });
    }
    match a.tensors(i)?[..] {
        [h, c] => Ok(State { h: h.clone(), c: Some(c.clone()) }),
        _ => Err(Error::runtime("lstm expects two hidden states")),
    }
}

fn settings(a: &Args<'_>, i: usize) -> Result<Settings> {
    Ok(Settings {
        bias: a.bool(i)?,
        num_layers: usize::try_from(a.int(i + 1)?).unwrap_or(0),
        dropout: a.float(i + 2)?,
        train: a.bool(i + 3)?,
        bidirectional: a.bool(i + 4)?,
    })
}

fn answer(y: Tensor, s: State) -> Ret {
    match s.c {
        Some(c) => (y, s.h, c).into(),
        None => (y, s.h).into(),
    }
}

fn over_input(kind: Kind, a: &Args<'_>) -> Result<Ret> {
    let (o, batch_first) = (settings(a, 3)?, a.bool(8)?);
    let turned = |x: &Tensor| if batch_first { x.transpose(0, 1) } else { Ok(x.clone()) };
    let (y, s) = layers(kind, &turned(a.tensor(0)?)?, None, &states(kind, a, 1)?, &a.tensors(2)?, &o)?;
    Ok(answer(turned(&y)?, s))
}

/// The sum of the sizes, saturated at the largest number.
fn total(sizes: &[i64]) -> i64 {
    sizes.iter().fold(0, |sum: i64, &n| sum.saturating_add(n))
}

fn over_packed(kind: Kind, a: &Args<'_>) -> Result<Ret> {
    let sizes = a.tensor(1)?.to_vec::<i64>()?;
    let rows = a.tensor(0)?.dims().first().copied().unwrap_or(0) as i64;
    if sizes.iter().any(|&n| n <= 0) || sizes.windows(2).any(|w| w[1] > w[0]) || total(&sizes) != rows {
        return Err(Error::runtime(format!(
            "batch_sizes must be positive, sorted in decreasing order and add up to the {rows} rows of data"
        )));
    }
    let (y, s) = layers(kind, a.tensor(0)?, Some(&sizes), &states(kind, a, 2)?, &a.tensors(3)?, &settings(a, 4)?)?;
    Ok(answer(y, s))
}

fn one_step(kind: Kind, a: &Args<'_>) -> Result<Ret> {
    if kind == Kind::Lstm && a.tensors(1).is_ok_and(|v| v.len() != 2) {
        return Err(Error::runtime("lstm_cell expects two hidden states"));
    }
    let w = Weights { ih: a.tensor(2)?, hh: a.tensor(3)?, b_ih: a.opt_tensor(4)?, b_hh: a.opt_tensor(5)?, hr: None };
    let s = cell(kind, a.tensor(0)?, &states(kind, a, 1)?, &w)?;
    Ok(match s.c {
        Some(c) => (s.h, c).into(),
        None => s.h.into(),
    })
}

fn list(dims: &[&[usize]]) -> SampleArg {
    SampleArg::Tensors(dims.iter().map(|d| d.to_vec()).collect(), Fill::Unit)
}

/// Input size 3 and hidden size 2; with `lstm` there are two states.
fn state_sample(lstm: bool, dims: &[usize]) -> SampleArg {
    if lstm { list(&[dims, dims]) } else { t(dims) }
}

fn input_samples(gates: usize, lstm: bool) -> Vec<Sample> {
    let g = 2 * gates;
    let flags =
        |bias: bool, layers: i64, two: bool, first: bool| vec![n(bias), n(layers), n(0.0), n(false), n(two), n(first)];
    let sample = |x: &[usize], s: &[usize], w: &[&[usize]], f: Vec<SampleArg>| {
        Sample::new([vec![t(x), state_sample(lstm, s), list(w)], f].concat())
    };
    let (ih, hh, b): (&[usize], &[usize], &[usize]) = (&[g, 3], &[g, 2], &[g]);
    let wide: &[usize] = &[g, 4];
    vec![
        sample(&[3, 2, 3], &[1, 2, 2], &[ih, hh, b, b], flags(true, 1, false, false)),
        sample(&[2, 3, 3], &[1, 2, 2], &[ih, hh], flags(false, 1, false, true)),
        sample(&[2, 1, 3], &[4, 1, 2], &[ih, hh, ih, hh, wide, hh, wide, hh], flags(false, 2, true, false)),
    ]
}

fn cell_samples(gates: usize, lstm: bool) -> Vec<Sample> {
    let g = 2 * gates;
    vec![
        Sample::new(vec![t(&[2, 3]), state_sample(lstm, &[2, 2]), t(&[g, 3]), t(&[g, 2]), t(&[g]), t(&[g])]),
        Sample::new(vec![t(&[1, 3]), state_sample(lstm, &[1, 2]), t(&[g, 3]), t(&[g, 2])]),
    ]
}

macro_rules! layer_rows {
    ($name:literal, $kind:expr, $state:literal, $result:literal, $one:literal, $gates:literal, $lstm:literal,
     $doc:literal, $cell_doc:literal) => {
        [
            Row::new(
                concat!(
                    $name,
                    ".input(Tensor input, ",
                    $state,
                    " hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool \
                    bidirectional, bool batch_first) -> ",
                    $result
                ),
                Tier::Composed,
                |a| over_input($kind, a),
                || input_samples($gates, $lstm),
            )
            .doc($doc)
            .scope(Scope::Function)
            .no_out()
            .autocast(Policies::both(Policy::Lower)),
            Row::new(
                concat!(
                    $name,
                    ".data(Tensor data, Tensor batch_sizes, ",
                    $state,
                    " hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool \
                    bidirectional) -> ",
                    $result
                ),
                Tier::Composed,
                |a| over_packed($kind, a),
                samples!(),
            )
            .scope(Scope::Function)
            .no_out()
            .autocast(Policies::both(Policy::Lower)),
            Row::new(
                concat!(
                    $name,
                    "_cell(Tensor input, ",
                    $state,
                    " hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> ",
                    $one
                ),
                Tier::Composed,
                |a| one_step($kind, a),
                || cell_samples($gates, $lstm),
            )
            .doc($cell_doc)
            .scope(Scope::Function)
            .no_out()
            .autocast(Policies::accelerator(Policy::Lower)),
        ]
    };
}

/// Rows of the LSTM.
pub const LSTM_ROWS: &[Row] = &layer_rows!(
    "lstm",
    Kind::Lstm,
    "Tensor[]",
    "(Tensor, Tensor, Tensor)",
    "(Tensor, Tensor)",
    4,
    true,
    "Return the outputs of a stack of LSTM layers over `input` `(t, n, i)`, or `(n, t, i)` with `batch_first`, then \
     the last hidden and cell states. `hx` holds the first hidden and cell states, each `(layers * directions, n, \
     hidden)`. `params` lists for each layer and direction `w_ih` `(4 * hidden, i)`, `w_hh` `(4 * hidden, hidden)`, \
     with `has_biases` `b_ih` and `b_hh`, and, for projections, `w_hr`. `dropout` drops outputs between layers when \
     `train` is set. The other form takes packed rows `data` with the number `batch_sizes` of sequences at each step.",
    "Return the next hidden and cell state of an LSTM, `(n, hidden)`, for `input` `(n, i)` and the states `hx = [h, \
     c]`. With `i, f, g, o` from the four parts of `input @ w_ih^T + b_ih + h @ w_hh^T + b_hh`, by `tanh` for `g` and \
     `sigmoid` for the others, `c' = f * c + i * g` and `h' = o * tanh(c')`."
);
/// Rows of the GRU.
pub const GRU_ROWS: &[Row] = &layer_rows!(
    "gru",
    Kind::Gru,
    "Tensor",
    "(Tensor, Tensor)",
    "Tensor",
    3,
    false,
    "Return the outputs of a stack of GRU layers over `input` `(t, n, i)`, or `(n, t, i)` with `batch_first`, then \
     the last hidden states. `hx` holds the first ones, `(layers * directions, n, hidden)`. `params` lists for each \
     layer and direction `w_ih` `(3 * hidden, i)`, `w_hh` `(3 * hidden, hidden)` and, with `has_biases`, `b_ih` and \
     `b_hh`. The other form takes packed rows, as in `torch.lstm`.",
    "Return the next hidden state of a GRU, `(n, hidden)`, for `input` `(n, i)` and the state `hx`. The parts of `x = \
     input @ w_ih^T + b_ih` and `y = hx @ w_hh^T + b_hh` give `r = sigmoid(x_r + y_r)`, `z = sigmoid(x_z + y_z)` and \
     `c = tanh(x_c + r * y_c)`. The result is `(1 - z) * c + z * hx`."
);
/// Rows of the simple layer with `tanh`.
pub const TANH_ROWS: &[Row] = &layer_rows!(
    "rnn_tanh",
    Kind::Tanh,
    "Tensor",
    "(Tensor, Tensor)",
    "Tensor",
    1,
    false,
    "Return the outputs of a stack of simple recurrent layers with `tanh` over `input` `(t, n, i)`, or `(n, t, i)` \
     with `batch_first`, then the last hidden states. `hx` holds the first ones, `(layers * directions, n, hidden)`. \
     `params` lists for each layer and direction `w_ih` `(hidden, i)`, `w_hh` `(hidden, hidden)` and, with \
     `has_biases`, `b_ih` and `b_hh`. The other form takes packed rows, as in `torch.lstm`.",
    "Return `tanh(input @ w_ih^T + b_ih + hx @ w_hh^T + b_hh)`, the next hidden state `(n, hidden)`, for `input` `(n, \
     i)` and `hx` `(n, hidden)`."
);
/// Rows of the simple layer with `relu`.
pub const RELU_ROWS: &[Row] = &layer_rows!(
    "rnn_relu",
    Kind::Relu,
    "Tensor",
    "(Tensor, Tensor)",
    "Tensor",
    1,
    false,
    "Return the outputs of a stack of simple recurrent layers with `relu`, then the last hidden states. The arguments \
     are those of `torch.rnn_tanh`.",
    "Return `relu(input @ w_ih^T + b_ih + hx @ w_hh^T + b_hh)`, the next hidden state `(n, hidden)`, which has no \
     upper limit."
);
