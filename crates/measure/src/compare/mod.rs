//! A baseline and candidates: their sides ([`resolve`]), measured or read numbers, and verdicts
//! ([`Case`]).

mod judge;
mod live;
mod operand;
mod planned;
mod read;
mod request;
mod series;
mod settings;
mod sides;

pub use judge::{Case, Floor, RangeChange, Row};
pub use live::{Failures, Measured, Stage, WarmedUp};
pub use operand::{Command, Experiment, Operand, Operands, ReadExperiment, resolve};
pub use planned::Planned;
pub use read::error::ReadError;
pub use request::{Request, Warmup};
pub use series::{Series, Settings, Side, partner};
pub use settings::{Difference, NAMES as SETTINGS, differing, list, sizes, words};
