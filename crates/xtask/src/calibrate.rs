//! `cargo xtask calibrate [--add | PATH]`: measures the units of user-mode work on this machine;
//! `calibrate --machine [PATH]` measures its caches, transfers, switches, wakeups and calls.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use convoy_workload::calibration::Calibration;

use crate::Outcome;

/// The checked-in calibration, relative to the root of the workspace.
pub(crate) const DEFAULT: &str = "machines/calibration.toml";

/// The preset of the machine that was measured, relative to the root of the workspace.
pub(crate) const HOST: &str = "machines/host.toml";

/// Measures this machine and writes `path`, a machine preset.
pub(crate) fn machine(path: &Path) -> anyhow::Result<Outcome> {
    let progress = |what: &str, value: f64| eprintln!("{what:<28} {value:>14.3}");
    let calibration = Calibration::embedded()?;
    let preset = convoy_lab::calibrate_machine::describe(&calibration, &scratch(), progress)?;
    write(path, &preset)
}

/// A new directory for the calls that are measured: in memory where there is one, as AIM7's is.
fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let name = format!("convoy-calibrate-{}", std::process::id());
    if memory.is_dir() { memory.join(name) } else { std::env::temp_dir().join(name) }
}

/// Measures this machine and writes `path`; with `add` only the units that `path` lacks, on the
/// scale of those that it has.
pub(crate) fn run(path: &Path, add: bool) -> anyhow::Result<Outcome> {
    let progress = |unit: &'static str, ns: f64| eprintln!("{unit:<28} {ns:>14.3} ns");
    let calibration = if add {
        convoy_lab::calibrate::complete(&Calibration::load_incomplete(path)?, progress)?
    } else {
        convoy_lab::calibrate::calibrate(progress)?
    };
    write(path, &calibration.to_toml())
}

fn write(path: &Path, text: &str) -> anyhow::Result<Outcome> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write {}; name another file", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(Outcome::Done)
}
