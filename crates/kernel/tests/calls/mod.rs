//! The system calls of the virtual kernel through the trait `Kernel`.

mod cold;
mod commits;
mod common;
mod extension;
mod files;
mod journal;
mod processes;
