//! Experiments on the virtual machine, and the pages that their types and jobs fill.

mod convoy_2008;
mod determinism;
mod jobs;
mod machines;
mod one_user;
mod presets;
mod reference;
mod virtual_jobs;
