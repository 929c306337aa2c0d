//! `cargo xtask fuzz`: the readers of files against made-up inputs.

use std::path::Path;

use crate::stage::{Ending, cargo, run as show};

pub(crate) fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<Ending> {
    let run = ["run", "--quiet", "--package", "convoy-fuzz", "--"];
    show(cargo(root, &run).args(arguments))
}
