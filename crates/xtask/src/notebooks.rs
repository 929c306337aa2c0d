//! `cargo xtask notebooks`: the notebooks, executed from beginning to end, and the tables of the
//! Python package, with the oldest and the newest version of Python.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::ensure;

use crate::stage::{Ending, run as show};

/// What notebooks, tables and tests import, with the versions that were tested.
const PACKAGES: [&str; 6] = [
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
    "pyarrow==26.0.1",
    "pandas==3.1.1",
    "matplotlib==3.11.2",
    "pytest-benchmark==5.3.1",
];
/// The oldest and the newest supported version of Python. Notebooks run with `python3`.
const PYTHONS: [&str; 2] = ["python3.9", "python3.13"];

/// Executes all notebooks and the test of the tables with the program `convoy`.
pub(crate) fn run(root: &Path, convoy: &Path) -> anyhow::Result<Ending> {
    let orders = root.join("target/notebooks/orders");
    let convoy = &std::path::absolute(convoy)?;
    let Ok(path) = path(root) else {
        return Ok(Ending::Skipped("python3 with venv and pip, and a package index"));
    };
    let source = root.join("examples/slow-program/orders.c");
    let cc = ["-O1", "-g", "-pthread", "-o"];
    let mut passed = show(Command::new("cc").args(cc).arg(&orders).arg(source))?;
    for python in PYTHONS {
        let place = root.join("target/notebooks").join(python);
        let packages = ["pyarrow", "pandas"];
        if !installed(python, &place, &packages) {
            println!("{python} is not installed here, or has no package index: left out");
            continue;
        }
        let mut test = with(root, &place.join("bin/python"), convoy);
        test.arg(root.join("python/tests/test_tables.py")).arg(&orders);
        passed = worse(passed, show(&mut test)?);
    }
    let mut execute = with(root, Path::new("python3"), convoy);
    execute.env("PATH", path).arg(root.join("python/tests/notebooks.py"));
    for entry in std::fs::read_dir(root.join("notebooks"))? {
        execute.arg(entry?.path());
    }
    Ok(worse(passed, show(&mut execute)?))
}

/// Returns a `PATH` whose `python3` has the packages.
pub(crate) fn path(root: &Path) -> anyhow::Result<String> {
    let place = root.join("target/notebooks/python3");
    ensure!(installed("python3", &place, &PACKAGES), "python3 with venv and a package index");
    Ok(format!("{}:{}", place.join("bin").display(), std::env::var("PATH").unwrap_or_default()))
}

/// Installs `packages` for `python` in `place`; false if that is not possible here.
fn installed(python: &str, place: &Path, packages: &[&str]) -> bool {
    fn quiet(command: &mut Command) -> bool {
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }
    let pip = ["-m", "pip", "install", "--timeout", "20"];
    quiet(Command::new(python).args(["-m", "venv"]).arg(place))
        && quiet(Command::new(place.join("bin/python")).args(pip).args(packages))
}

/// Returns a call of `python` with the package of this tree and the program.
fn with(root: &Path, python: &Path, convoy: &Path) -> Command {
    let mut command = Command::new(python);
    command.env("PYTHONPATH", root.join("python")).env("CONVOY", convoy);
    command.env("CONVOY_STORE", "none");
    command
}

fn worse(one: Ending, other: Ending) -> Ending {
    if matches!(one, Ending::Passed) { other } else { one }
}
