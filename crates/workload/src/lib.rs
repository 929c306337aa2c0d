//! The definition of a load, for any kernel: the system calls of jobs, the jobs, mixes and run
//! rules of AIM7, and the record of a run.
//!
//! A [`mix::Mix`] says which [`jobs::Job`]s a user runs; [`draw`] in which order. A job is written
//! once against [`api::Kernel`]; [`user::user_main`] is the body of one user on any kernel.
//! User-mode work is done in named [`units`], which the host runs and the virtual kernel charges by
//! a [`calibration`].

pub mod api;
pub mod calibration;
pub mod columns;
pub mod command;
pub mod counting;
pub mod dialect;
pub mod draw;
mod errno;
pub mod fixture;
pub mod jobs;
pub mod list;
pub mod load;
pub mod mix;
pub mod record;
pub mod rotation;
pub mod schedule;
pub mod sizes;
mod text;
pub mod units;
pub mod user;
pub mod users;
mod work;
pub mod workfile;
pub mod workload;

pub use api::Kernel;
pub use errno::Errno;
pub use work::library::calendar;
