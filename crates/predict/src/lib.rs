//! Predicts the throughput of a recorded program with other CPUs, threads and locks.
//!
//! A [`Record`](convoy_record::Record) has demands on stations (`demands.rs`), from which bounds
//! follow for every question (`bounds.rs`, `network.rs`). It also becomes a behaviour
//! (`behaviour.rs`), which is replayed on virtual machines ([`Machines`]) in one cell per question
//! ([`predict`]) and narrows the bounds. The result is facts: rows, doubts and advice
//! ([`Prediction`], [`Advice`]). This crate writes no sentence, parses no flag and prints nothing.

mod advice;
mod away;
mod behaviour;
mod bounds;
mod cells;
mod choice;
mod damage;
mod demands;
mod doubt;
mod edit;
mod error;
mod limit;
mod mix;
mod moving;
mod network;
mod others;
mod point;
mod pool;
mod prediction;
mod row;
mod run;
mod script;
mod single;
mod target;
mod unsteady;

pub use advice::{Advice, Remedy, SourceChange, policies};
pub use behaviour::{busiest, is_alone};
pub use cells::{Question, predict, predict_aloud};
pub use choice::{Change, Choice, FAIR, HANDOFF, PREFER_WRITERS, SIGNAL, SLEEP, SPIN, names};
pub use convoy_runs::replay::Effort;
pub use demands::{KernelLock, Named, Station};
pub use doubt::{Doubt, Feature, Figure, Reason};
pub use edit::Edit;
pub use error::PredictError;
pub use limit::{Holders, Limit};
pub use point::Point;
pub use prediction::Prediction;
pub use row::{Part, Row, Simulated};
pub use run::Known;
pub use target::Machines;
