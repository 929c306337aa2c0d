//! `convoy run`: AIM7 on this machine.

mod args;
mod host;
mod progress;
mod repeats;

use crate::fail::Failure;
use crate::load::control;
pub(crate) use args::Run;
use std::process::ExitCode;

pub(crate) fn run(args: &Run) -> Result<ExitCode, Failure> {
    args.results.files.check(&args.common)?;
    let mix = control::mix(&args.load)?;
    host::run(args, mix, control::schedule(&args.points, &args.sweep)?)
}
