//! Predicts the throughput of a recorded program with other CPUs, threads and locks.
//!
//! A [`Record`](convoy_record::Record) becomes a behaviour (`behaviour.rs`), which is replayed on
//! virtual machines ([`Machines`]) in one cell per question ([`predict`]). The cells become rows,
//! doubts and advice ([`Prediction`], [`Advice`]). This crate neither parses flags nor prints.

mod advice;
mod away;
mod behaviour;
mod bounds;
mod cells;
mod choice;
mod damage;
mod doubt;
mod error;
mod limit;
mod mix;
mod moving;
mod others;
mod point;
mod prediction;
mod row;
mod run;
mod script;
mod target;
mod units;
mod unsteady;

pub use advice::{Advice, policies};
pub use behaviour::{busiest, is_alone};
pub use cells::{Question, predict, predict_aloud};
pub use choice::{Change, Choice, FAIR, HANDOFF, SLEEP, SPIN, names};
pub use convoy_runs::replay::Effort;
pub use doubt::Doubt;
pub use error::PredictError;
pub use point::Point;
pub use prediction::Prediction;
pub use row::{Part, Row};
pub use run::Known;
pub use target::Machines;
pub use units::{duration, rate};
