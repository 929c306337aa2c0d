//! `cargo xtask calibrate [PATH]`: measures the units of user-mode work on this machine.

use std::path::Path;

use anyhow::Context as _;

use crate::Outcome;

/// The checked-in calibration, relative to the root of the workspace.
pub(crate) const DEFAULT: &str = "machines/calibration.toml";

/// Measures this machine and writes `path`.
pub(crate) fn run(path: &Path) -> anyhow::Result<Outcome> {
    let calibration = convoy_load::calibrate::calibrate(|unit, ns| {
        eprintln!("{unit:<28} {ns:>14.3} ns");
    })?;
    std::fs::write(path, calibration.to_toml())
        .with_context(|| format!("cannot write {}; name another file", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(Outcome::Done)
}
