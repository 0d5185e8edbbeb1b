//! Recurrent layers and cells.

use crate::{Module, Parameter, Training, Visitor, init};
use torchtpu_tensor::ops::rnn::{self, Kind, Settings, State, Weights};
use torchtpu_tensor::{Error, Result, Tensor};

/// Settings of [`LSTM`], [`GRU`] and [`RNN`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RnnOptions {
    /// Number of stacked layers.
    pub num_layers: usize,
    /// Whether there are biases.
    pub bias: bool,
    /// Whether the batch dimension comes before the step dimension.
    pub batch_first: bool,
    /// Probability of dropping an element between two layers in training.
    pub dropout: f64,
    /// Whether every layer also runs from the end to the start.
    pub bidirectional: bool,
    /// Size that hidden states of an LSTM are projected to. Zero means no projection.
    pub proj_size: usize,
}

impl Default for RnnOptions {
    fn default() -> RnnOptions {
        RnnOptions { num_layers: 1, bias: true, batch_first: false, dropout: 0.0, bidirectional: false, proj_size: 0 }
    }
}

fn uniform(dims: &[usize], hidden: usize) -> Result<Parameter> {
    let x = init::empty(dims)?;
    let bound = 1.0 / (hidden as f64).sqrt();
    init::uniform_(&x, -bound, bound, None)?;
    Parameter::new(x)
}

/// The parameters of a recurrent layer, under PyTorch's names and in its order.
#[derive(Debug)]
struct Stack {
    kind: Kind,
    options: RnnOptions,
    hidden: usize,
    parameters: Vec<(String, Parameter)>,
    training: Training,
}

impl Stack {
    fn new(kind: Kind, input: usize, hidden: usize, options: RnnOptions) -> Result<Stack> {
        let o = &options;
        if hidden == 0 {
            return Err(Error::value("hidden_size must be greater than zero"));
        }
        if o.num_layers == 0 {
            return Err(Error::value("num_layers must be greater than zero"));
        }
        if !(0.0..=1.0).contains(&o.dropout) {
            return Err(Error::value(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed",
            ));
        }
        if o.proj_size > 0 && kind != Kind::Lstm {
            return Err(Error::value("proj_size argument is only supported for LSTM, not RNN or GRU"));
        }
        if o.proj_size >= hidden {
            return Err(Error::value("proj_size has to be smaller than hidden_size"));
        }
        let directions = if o.bidirectional { 2 } else { 1 };
        let (rows, real) = (init::product(kind.gates(), hidden)?, if o.proj_size > 0 { o.proj_size } else { hidden });
        let mut parameters = Vec::new();
        for layer in 0..o.num_layers {
            for direction in 0..directions {
                let input = if layer == 0 { input } else { init::product(real, directions)? };
                let suffix = format!("_l{layer}{}", if direction == 1 { "_reverse" } else { "" });
                let mut add = |name: &str, dims: &[usize]| -> Result<()> {
                    parameters.push((format!("{name}{suffix}"), uniform(dims, hidden)?));
                    Ok(())
                };
                add("weight_ih", &[rows, input])?;
                add("weight_hh", &[rows, real])?;
                if o.bias {
                    add("bias_ih", &[rows])?;
                    add("bias_hh", &[rows])?;
                }
                if o.proj_size > 0 {
                    add("weight_hr", &[o.proj_size, hidden])?;
                }
            }
        }
        Ok(Stack { kind, options, hidden, parameters, training: Training::default() })
    }

    /// Return outputs and last states. States start as zeros unless given.
    fn run(&self, x: &Tensor, start: Option<State>) -> Result<(Tensor, State)> {
        let o = &self.options;
        if !matches!(x.dims().len(), 2 | 3) {
            let name = format!("{:?}", self.kind).to_uppercase();
            return Err(Error::value(format!(
                "{name}: Expected input to be 2D or 3D, got {}D instead",
                x.dims().len()
            )));
        }
        let batched = x.dims().len() == 3;
        let with_batch = |t: &Tensor| if batched { Ok(t.clone()) } else { t.unsqueeze(1) };
        let turned = |t: &Tensor| if batched && o.batch_first { t.transpose(0, 1) } else { Ok(t.clone()) };
        let x = turned(&with_batch(x)?)?;
        let start = match start {
            Some(s) => State { h: with_batch(&s.h)?, c: s.c.as_ref().map(with_batch).transpose()? },
            None => {
                let rows = o.num_layers * if o.bidirectional { 2 } else { 1 };
                let zeros = |size: usize| Tensor::zeros(&[rows, x.dims()[1], size], x.dtype(), x.place());
                let real = if o.proj_size > 0 { o.proj_size } else { self.hidden };
                State { h: zeros(real)?, c: (self.kind == Kind::Lstm).then(|| zeros(self.hidden)).transpose()? }
            }
        };
        let settings = Settings {
            num_layers: o.num_layers,
            bias: o.bias,
            dropout: o.dropout,
            train: self.training.get(),
            bidirectional: o.bidirectional,
        };
        let weights: Vec<Tensor> = self.parameters.iter().map(|(_, p)| p.tensor()).collect();
        let (y, s) = rnn::layers(self.kind, &x, None, &start, &weights.iter().collect::<Vec<_>>(), &settings)?;
        if batched {
            return Ok((turned(&y)?, s));
        }
        let h = s.h.squeeze(1)?;
        Ok((y.squeeze(1)?, State { h, c: s.c.map(|c| c.squeeze(1)).transpose()? }))
    }

    fn visit(&self, v: &mut Visitor<'_>) {
        self.parameters.iter().for_each(|(name, p)| v.parameter(name, p));
        v.training(&self.training);
    }
}

/// Long short-term memory layers over sequences `[steps, batch, features]`.
///
/// ```
/// use torchtpu_nn::{LSTM, Module, RnnOptions};
/// use torchtpu_tensor::{DType, Device, Tensor};
///
/// let lstm = LSTM::new(3, 5, RnnOptions { num_layers: 2, ..RnnOptions::default() })?;
/// let x = Tensor::ones(&[7, 2, 3], DType::F32, Device::CPU)?;
/// let (y, (h, c)) = lstm.run(&x, None)?;
/// assert_eq!(y.dims()[..], [7, 2, 5]);
/// assert_eq!(h.dims()[..], [2, 2, 5]);
/// assert_eq!(c.dims()[..], [2, 2, 5]);
/// # Ok::<(), torchtpu_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct LSTM(Stack);

impl LSTM {
    /// Make a layer of the default dtype on `cpu`.
    ///
    /// # Errors
    /// Fails with `Value`, in PyTorch's wording, for invalid settings.
    pub fn new(input_size: usize, hidden_size: usize, options: RnnOptions) -> Result<LSTM> {
        Stack::new(Kind::Lstm, input_size, hidden_size, options).map(LSTM)
    }
    /// Return the outputs of the last layer, and the last hidden and cell states of all layers. States start as zeros
    /// unless given.
    ///
    /// # Errors
    /// Fails if input or states do not fit.
    pub fn run(&self, x: &Tensor, start: Option<(Tensor, Tensor)>) -> Result<(Tensor, (Tensor, Tensor))> {
        let (y, s) = self.0.run(x, start.map(|(h, c)| State { h, c: Some(c) }))?;
        Ok((y, (s.h, s.c.expect("an LSTM has cell states"))))
    }
}

/// Define a module whose `forward` returns only the outputs of `run`.
macro_rules! sequence_module {
    ($name:ident) => {
        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                Ok(self.run(x, None)?.0)
            }
            fn visit(&self, v: &mut Visitor<'_>) {
                self.0.visit(v);
            }
        }
    };
}
sequence_module!(LSTM);
sequence_module!(GRU);
sequence_module!(RNN);

/// Gated recurrent layers over sequences `[steps, batch, features]`.
#[derive(Debug)]
pub struct GRU(Stack);

impl GRU {
    /// Make a layer of the default dtype on `cpu`.
    ///
    /// # Errors
    /// Fails with `Value`, in PyTorch's wording, for invalid settings.
    pub fn new(input_size: usize, hidden_size: usize, options: RnnOptions) -> Result<GRU> {
        Stack::new(Kind::Gru, input_size, hidden_size, options).map(GRU)
    }
    /// Return the outputs of the last layer, and the last states of all layers. States start as zeros unless given.
    ///
    /// # Errors
    /// Fails if input or states do not fit.
    pub fn run(&self, x: &Tensor, start: Option<Tensor>) -> Result<(Tensor, Tensor)> {
        let (y, s) = self.0.run(x, start.map(|h| State { h, c: None }))?;
        Ok((y, s.h))
    }
}

/// The nonlinearity of a simple recurrent layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RnnNonlinearity {
    /// Hyperbolic tangent.
    #[default]
    Tanh,
    /// `max(x, 0)`.
    ReLU,
}

impl RnnNonlinearity {
    fn kind(self) -> Kind {
        match self {
            RnnNonlinearity::Tanh => Kind::Tanh,
            RnnNonlinearity::ReLU => Kind::Relu,
        }
    }
}

/// Simple recurrent layers over sequences `[steps, batch, features]`.
#[derive(Debug)]
pub struct RNN(Stack);

impl RNN {
    /// Make a layer of the default dtype on `cpu`.
    ///
    /// # Errors
    /// Fails with `Value`, in PyTorch's wording, for invalid settings.
    pub fn new(
        input_size: usize,
        hidden_size: usize,
        nonlinearity: RnnNonlinearity,
        options: RnnOptions,
    ) -> Result<RNN> {
        Stack::new(nonlinearity.kind(), input_size, hidden_size, options).map(RNN)
    }
    /// Return the outputs of the last layer, and the last states of all layers. States start as zeros unless given.
    ///
    /// # Errors
    /// Fails if input or states do not fit.
    pub fn run(&self, x: &Tensor, start: Option<Tensor>) -> Result<(Tensor, Tensor)> {
        let (y, s) = self.0.run(x, start.map(|h| State { h, c: None }))?;
        Ok((y, s.h))
    }
}

/// The parameters of one step.
#[derive(Debug)]
struct Cell {
    kind: Kind,
    weight_ih: Parameter,
    weight_hh: Parameter,
    bias: Option<(Parameter, Parameter)>,
}

impl Cell {
    fn new(kind: Kind, input: usize, hidden: usize, bias: bool) -> Result<Cell> {
        if hidden == 0 {
            return Err(Error::value("hidden_size must be greater than zero"));
        }
        let rows = init::product(kind.gates(), hidden)?;
        Ok(Cell {
            kind,
            weight_ih: uniform(&[rows, input], hidden)?,
            weight_hh: uniform(&[rows, hidden], hidden)?,
            bias: if bias { Some((uniform(&[rows], hidden)?, uniform(&[rows], hidden)?)) } else { None },
        })
    }
    fn zeros(&self, x: &Tensor) -> Result<Tensor> {
        let batch = x.dims().first().copied().unwrap_or(0);
        Tensor::zeros(&[batch, self.weight_hh.tensor().dims()[1]], x.dtype(), x.place())
    }
    fn step(&self, x: &Tensor, s: &State) -> Result<State> {
        let (ih, hh) = (self.weight_ih.tensor(), self.weight_hh.tensor());
        let bias = self.bias.as_ref().map(|(a, b)| (a.tensor(), b.tensor()));
        let (b_ih, b_hh) = bias.as_ref().map(|(a, b)| (a, b)).unzip();
        rnn::cell(self.kind, x, s, &Weights { ih: &ih, hh: &hh, b_ih, b_hh, hr: None })
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        v.parameter("weight_ih", &self.weight_ih);
        v.parameter("weight_hh", &self.weight_hh);
        if let Some((a, b)) = &self.bias {
            v.parameter("bias_ih", a);
            v.parameter("bias_hh", b);
        }
    }
}

/// One step of an [`LSTM`], on `[batch, features]`.
#[derive(Debug)]
pub struct LSTMCell(Cell);

impl LSTMCell {
    /// Make a cell of the default dtype on `cpu`.
    ///
    /// # Errors
    /// Fails with `Value` for a hidden size of zero.
    pub fn new(input_size: usize, hidden_size: usize, bias: bool) -> Result<LSTMCell> {
        Cell::new(Kind::Lstm, input_size, hidden_size, bias).map(LSTMCell)
    }
    /// Return the hidden and cell states after the step.
    ///
    /// # Errors
    /// Fails if input or states do not fit.
    pub fn step(&self, x: &Tensor, state: Option<(Tensor, Tensor)>) -> Result<(Tensor, Tensor)> {
        let (h, c) = state.map_or_else(|| Ok((self.0.zeros(x)?, self.0.zeros(x)?)), Ok)?;
        let s = self.0.step(x, &State { h, c: Some(c) })?;
        Ok((s.h, s.c.expect("an LSTM has cell states")))
    }
}

impl Module for LSTMCell {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.step(x, None)?.0)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        self.0.visit(v);
    }
}

/// Define a cell with one state.
macro_rules! simple_cell {
    ($(#[$doc:meta])* $name:ident, ($($extra:ident: $ty:ty)?), $kind:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(Cell);

        impl $name {
            /// Make a cell of the default dtype on `cpu`.
            ///
            /// # Errors
            /// Fails with `Value` for a hidden size of zero.
            pub fn new(input_size: usize, hidden_size: usize, bias: bool $(, $extra: $ty)?) -> Result<$name> {
                Cell::new($kind, input_size, hidden_size, bias).map($name)
            }
            /// Return the state after the step.
            ///
            /// # Errors
            /// Fails if input or state do not fit.
            pub fn step(&self, x: &Tensor, state: Option<Tensor>) -> Result<Tensor> {
                let h = state.map_or_else(|| self.0.zeros(x), Ok)?;
                Ok(self.0.step(x, &State { h, c: None })?.h)
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.step(x, None)
            }
            fn visit(&self, v: &mut Visitor<'_>) {
                self.0.visit(v);
            }
        }
    };
}

simple_cell! {
    /// One step of a [`GRU`], on `[batch, features]`.
    GRUCell, (), Kind::Gru
}
simple_cell! {
    /// One step of an [`RNN`], on `[batch, features]`.
    RNNCell, (nonlinearity: RnnNonlinearity), nonlinearity.kind()
}
