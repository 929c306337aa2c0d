//! `convoy run`: AIM7 on this machine.

mod args;
mod host;
mod progress;
mod repeats;
mod single;

use crate::fail::Failure;
use crate::load::{self, control};
pub(crate) use args::Run;
use std::process::ExitCode;

/// The command.
pub(crate) fn run(args: &Run) -> Result<ExitCode, Failure> {
    load::check(&args.common, &args.results.files)?;
    let config = control::config(&args.load)?;
    // The single-user mode is for AIM9's list of jobs.
    let mix = control::mix(&args.load, &config, if args.host.aim9 { "aim9" } else { "shared" })?;
    if args.host.aim9 {
        return single::run(args, mix, &config);
    }
    host::run(args, mix, control::schedule(&args.points, &args.sweep, &config)?, &config)
}
