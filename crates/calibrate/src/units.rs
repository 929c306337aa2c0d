//! Measures the units of user-mode work on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use convoy_host::describe_host;
use convoy_os::clock;
use convoy_workload::calibration::Calibration;
use convoy_workload::units::{ProgramWork, UNITS, Unit, Work};

/// Shortest time that one sample of a unit takes, nanoseconds: long against the clock and a timer
/// interrupt. It is CPU time: another process on the same CPU is not the unit's cost.
const SAMPLE_NS: u64 = 4_000_000;
/// Samples of a unit; the median is the price.
const SAMPLES: usize = 9;
/// Executions in one sample of a program: user time is accounted in ticks on some kernels.
const EXECUTIONS: u32 = 40;
/// Samples of a program.
const PROGRAM_SAMPLES: usize = 3;

/// Why this machine cannot be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A unit returned a wrong result.
    #[error("unit {unit} gave a wrong result on this machine; the build is broken, rebuild it")]
    Wrong {
        /// The unit.
        unit: &'static str,
    },
    /// A program cannot be run.
    #[error("cannot measure {program}: {source}; install it or use the built-in calibration")]
    Program {
        /// The program.
        program: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

/// Measures every unit; `progress` is told the name and price of each.
///
/// # Errors
/// [`CalibrateError`] if a unit is wrong or a program is missing.
pub fn calibrate(
    mut progress: impl FnMut(&'static str, f64),
) -> Result<Calibration, CalibrateError> {
    let mut ns = BTreeMap::new();
    for unit in UNITS {
        let price = match unit.work {
            Work::Body(body) => measure_body(unit, body)?,
            Work::Program(program) => measure_program(program)?,
        };
        progress(unit.name, price);
        ns.insert(unit.name.to_owned(), price);
    }
    Ok(Calibration { schema: 1, host: describe_host(), ns })
}

/// `old` with a price for every unit that it lacks, on the scale of `old`: measured here, times the
/// median of old price / price here over the units that both have. The prices of `old` stay.
///
/// # Errors
/// As [`calibrate`].
pub fn complete(
    old: &Calibration,
    progress: impl FnMut(&'static str, f64),
) -> Result<Calibration, CalibrateError> {
    let here = calibrate(progress)?;
    let scale = scale(old, &here.ns);
    let mut all = old.clone();
    for (unit, ns) in here.ns {
        all.ns.entry(unit).or_insert(ns * scale);
    }
    Ok(all)
}

/// Speed of this machine relative to the host of `old`, by the units that need no program.
///
/// # Errors
/// As [`calibrate`].
pub fn speed_beside(old: &Calibration) -> Result<f64, CalibrateError> {
    let mut ns = BTreeMap::new();
    for unit in UNITS {
        if let Work::Body(body) = unit.work {
            ns.insert(unit.name.to_owned(), measure_body(unit, body)?);
        }
    }
    Ok(scale(old, &ns))
}

/// Median of old price / price here over the bodies that both have.
fn scale(old: &Calibration, here: &BTreeMap<String, f64>) -> f64 {
    let bodies = UNITS.iter().filter(|unit| matches!(unit.work, Work::Body(_)));
    let ratios: Vec<f64> =
        bodies.filter_map(|unit| Some(old.ns.get(unit.name)? / here.get(unit.name)?)).collect();
    if ratios.is_empty() { 1.0 } else { median(ratios) }
}

fn measure_body(unit: &Unit, body: fn(u64) -> bool) -> Result<f64, CalibrateError> {
    let sample = |count: u64| {
        let start = clock::thread_cpu_ns();
        let right = body(count);
        let ns = clock::thread_cpu_ns() - start;
        if right { Ok(ns) } else { Err(CalibrateError::Wrong { unit: unit.name }) }
    };
    let mut count = 1;
    while sample(count)? < SAMPLE_NS {
        count *= 2;
    }
    let samples = (0..SAMPLES).map(|_| sample(count).map(|ns| ns as f64 / count as f64));
    Ok(median(samples.collect::<Result<_, _>>()?))
}

fn measure_program(program: ProgramWork) -> Result<f64, CalibrateError> {
    let name = match program {
        ProgramWork::Shell => "/bin/sh",
        ProgramWork::List => "ls",
    };
    let named = |source| CalibrateError::Program { program: name, source };
    let directory = Scratch::new().map_err(named)?;
    let samples = (0..PROGRAM_SAMPLES).map(|_| {
        let start = clock::children_user_ns();
        for _ in 0..EXECUTIONS {
            let mut command = match program {
                ProgramWork::Shell => Command::new(directory.path.join("script")),
                ProgramWork::List => {
                    let mut command = Command::new("ls");
                    command.arg("-l").arg(directory.path.join("bin"));
                    command
                }
            };
            let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
            if !status.success() {
                return Err(std::io::Error::other(status.to_string()));
            }
        }
        Ok((clock::children_user_ns() - start) as f64 / f64::from(EXECUTIONS))
    });
    // A kernel that accounts by ticks may see none of a short program: such a price is the tick's
    // resolution.
    let floor = 1e6 / f64::from(EXECUTIONS);
    Ok(median(samples.collect::<Result<_, _>>().map_err(named)?).max(floor))
}

/// The middle of `samples`, which must not be empty.
fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// A directory with the input files of the programs; removed on drop.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> std::io::Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let name = format!("convoy-calibrate-{}", std::process::id());
        let scratch = Self { path: std::env::temp_dir().join(name) };
        let bin = scratch.path.join("bin");
        std::fs::create_dir_all(&bin)?;
        for index in 0..convoy_workload::fixture::BIN_NAMES {
            std::fs::write(bin.join(format!("program{index:03}")), "not a program\n")?;
        }
        let script = scratch.path.join("script");
        std::fs::write(&script, "#!/bin/sh\nexit 0\n")?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_an_outlier() {
        assert!((median(vec![3.0, 900.0, 2.0]) - 3.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_wrong_unit_is_reported() {
        let error = measure_body(&convoy_workload::units::SIEVE, |_| false).expect_err("wrong");
        assert!(error.to_string().contains("sieve_pass"));
    }
}
