//! `convoy reproduce`: experiments, from their file to their report.

mod args;
mod cells;
mod measure;
mod plan;
mod print;
mod reproduce;
mod sweep;

pub(crate) use args::Reproduce;
pub(crate) use cells::{Told, apart, execute, threads};
pub(crate) use plan::plan;
pub(crate) use reproduce::{Files, Kept, carry_out, run as reproduce};
