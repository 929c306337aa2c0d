//! The machine and the scheduler against closed forms, as a table with the errors.
//!
//! `cargo run --release -p convoy-kernel --example oracles`; exits with 1 when a measured value is
//! more than 3 % from a closed form that claims to describe it. Small versions run as tests.
#![expect(clippy::print_stdout, reason = "a table for people")]

mod fair;
mod lock;
mod queue;

use convoy_machine::Preset;
use std::process::ExitCode;

/// Largest difference from a closed form, as a fraction of it.
const TOLERANCE: f64 = 0.03;

/// One comparison.
struct Row {
    what: String,
    unit: &'static str,
    closed_form: f64,
    measured: f64,
    /// The closed form leaves out something the machine does; the text says what. Printed, and not
    /// held against the machine.
    leaves_out: Option<&'static str>,
}

impl Row {
    fn new(what: String, unit: &'static str, closed_form: f64, measured: f64) -> Self {
        Self { what, unit, closed_form, measured, leaves_out: None }
    }

    fn error(&self) -> f64 {
        self.measured / self.closed_form - 1.0
    }

    fn holds(&self) -> bool {
        self.leaves_out.is_some() || self.error().abs() <= TOLERANCE
    }
}

/// A machine without costs: every price is 0, and runs are exact.
fn bare(cpus: usize) -> Preset {
    let mut preset =
        Preset::named("quad-2008-shared-llc").expect("the shipped preset").with_cpus(cpus);
    preset.topology.cpus_per_llc = cpus;
    preset.topology.cpus_per_package = cpus;
    let p = &mut preset.price_ns;
    for price in [
        &mut p.hit,
        &mut p.atomic,
        &mut p.llc,
        &mut p.package,
        &mut p.remote,
        &mut p.memory,
        &mut p.read_service,
        &mut p.ipi,
        &mut p.idle_exit,
        &mut p.interrupt,
        &mut p.switch,
        &mut p.refill,
    ] {
        *price = 0.0;
    }
    preset.perturbation = 0.0;
    preset.skew_ns = 0.0;
    preset
}

/// Pseudo-random draws (`SplitMix64`, Steele et al. 2014).
#[derive(Clone)]
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        convoy_machine::mix(self.0)
    }

    /// An exponential draw, never 0 or infinite.
    fn exponential(&mut self, mean: f64) -> f64 {
        let uniform = ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -mean * uniform.ln()
    }
}

fn main() -> ExitCode {
    let mut rows = queue::rows(100);
    rows.extend(lock::rows(10));
    rows.extend(fair::rows());
    println!("{:<66} {:>12} {:>12} {:>8}", "oracle", "closed form", "measured", "error");
    for row in &rows {
        let error = 100.0 * row.error();
        let (expected, measured) = (row.closed_form, row.measured);
        let note = row.leaves_out.map_or(String::new(), |text| format!("  ({text})"));
        let what = format!("{}, {}", row.what, row.unit);
        println!("{what:<66} {expected:>12.3} {measured:>12.3} {error:>+6.2} %{note}");
    }
    if rows.iter().all(Row::holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
fn assert_all(rows: &[Row]) {
    for row in rows {
        let (expected, measured) = (row.closed_form, row.measured);
        assert!(row.holds(), "{}: {measured} {}, closed form {expected}", row.what, row.unit);
    }
}
