//! Scenes of the virtual machine.

mod chain;
mod common;
mod contract;
mod core_to_core;
mod engine;
mod lines;
mod no_end;
mod threads;
