//! AIM7 jobs, mixes, host and virtual targets, run control and run records.
//!
//! A [`mix::Mix`] says which [`jobs::Job`]s a user runs; [`draw`] in which order. A job is written
//! once against `convoy_kernel::api::Kernel`; [`user::user_main`] is the body of one user on any
//! kernel. User-mode work is done in named [`units`], which the host runs and the virtual target
//! charges by a [`calibration`].

pub mod bulk;
pub mod calibrate;
pub mod calibrate_calls;
pub mod calibrate_machine;
mod calibrate_wakeups;
pub mod calibration;
pub mod clock;
pub mod columns;
pub mod counting;
pub mod draw;
pub mod experiment;
pub mod fixture;
pub mod host;
pub mod host_experiment;
pub mod jobs;
pub mod lock_loop;
pub mod mix;
pub mod native;
pub mod reaim_config;
pub mod record;
pub mod schedule;
pub mod sizes;
pub mod units;
pub mod user;
pub mod users;
pub mod virtual_end;
pub mod virtual_locks;
pub mod virtual_run;
pub mod workfile;

mod text;
mod work;
