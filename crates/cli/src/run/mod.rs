//! `convoy run`: AIM7 on this machine.

mod args;
mod host;
mod progress;
mod repeats;

use crate::fail::Failure;
use crate::load::{self, control};
pub(crate) use args::Run;
use std::process::ExitCode;

/// The command.
pub(crate) fn run(args: &Run) -> Result<ExitCode, Failure> {
    load::check(&args.common, &args.results.files)?;
    let mix = control::mix(&args.load)?;
    host::run(args, mix, control::schedule(&args.points, &args.sweep)?)
}
