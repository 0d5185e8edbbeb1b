//! What the engine does on XLA:CPU only, because a [`Profile`](torchtpu_stablehlo::Profile) has the capability.
//!
//! | file | capability | purpose |
//! |---|---|---|
//! | `interpret` | `interprets` | chooses programs that are computed op by op, and not compiled |
//! | `pool` | `pools` | keeps the memory of dropped results for later results |
//! | `kernels` | `calls_kernels` | the kernels of device `cpu` as custom calls |
//! | `collectives` | `calls_collectives` | the collectives of process groups as custom calls, in their order |

pub(crate) mod collectives;
pub(crate) mod interpret;
pub(crate) mod kernels;
pub(crate) mod pool;
