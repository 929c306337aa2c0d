//! Experiments on the virtual machine, and the system calls of their jobs.

mod convoy_2008;
mod determinism;
mod jobs;
mod one_user;
mod presets;
mod published;
mod virtual_jobs;
