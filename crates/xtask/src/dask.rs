//! A sweep whose worker dies produces the same bytes as a sweep on this machine.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::stage::{Ending, run as show};

/// A sweep on Dask workers, one of which is killed, with `convoy`; `size` are flags of the test.
/// Dask is installed in the build directory; a machine that cannot install it skips the stage with
/// a message, since the program does not need it.
pub(crate) fn run(root: &Path, convoy: &Path, size: &[&str]) -> anyhow::Result<Ending> {
    fn quiet(command: &mut Command) -> bool {
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }
    let place = root.join("target/python");
    let python = place.join("bin/python3");
    let has = |python: &Path| quiet(Command::new(python).args(["-c", "import distributed"]));
    if !has(&python) {
        let made = quiet(Command::new("python3").args(["-m", "venv"]).arg(&place));
        let install = ["-m", "pip", "install", "--timeout", "20", "distributed==2026.8.0"];
        if !made || !quiet(Command::new(&python).args(install)) || !has(&python) {
            return Ok(Ending::Skipped("python3 with venv and pip, and a package index"));
        }
    }
    let test = root.join("python/test_dask.py");
    show(Command::new(&python).arg(test).arg(convoy).args(size))
}
