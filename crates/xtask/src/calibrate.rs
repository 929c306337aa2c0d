//! `cargo xtask calibrate [--add | PATH]`: measures the units of user-mode work on this machine.

use std::path::Path;

use anyhow::Context as _;
use convoy_load::calibration::Calibration;

use crate::Outcome;

/// The checked-in calibration, relative to the root of the workspace.
pub(crate) const DEFAULT: &str = "machines/calibration.toml";

/// Measures this machine and writes `path`; with `add` only the units that `path` lacks, on the
/// scale of those that it has.
pub(crate) fn run(path: &Path, add: bool) -> anyhow::Result<Outcome> {
    let progress = |unit: &'static str, ns: f64| eprintln!("{unit:<28} {ns:>14.3} ns");
    let calibration = if add {
        convoy_load::calibrate::complete(&Calibration::load_incomplete(path)?, progress)?
    } else {
        convoy_load::calibrate::calibrate(progress)?
    };
    std::fs::write(path, calibration.to_toml())
        .with_context(|| format!("cannot write {}; name another file", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(Outcome::Done)
}
