//! The virtual machines of a prediction: the recorded one, and the ones that are asked for.

use convoy_calibrate::hour;
use convoy_catalogue::Set;
use convoy_kernel::{KernelPreset, costs_ns};
use convoy_machine::Preset;
use convoy_record::Program;

use crate::PredictError;

/// The presets of a prediction.
#[derive(Clone, Debug)]
pub struct Machines {
    /// The kernel.
    pub kernel: KernelPreset,
    /// Name or path of the machine preset.
    pub machine: String,
    /// Whether the machine is the recorded one, so that prices measured after the recording
    /// replace those of the preset.
    pub is_recorded: bool,
    /// Changes of the presets.
    pub sets: Vec<Set>,
}

impl Machines {
    /// Returns the machine with `cpus` CPUs in one of `rounds` rounds.
    ///
    /// # Errors
    /// [`PredictError::Preset`], [`PredictError::Costs`].
    pub(crate) fn with_cpus(
        &self,
        program: &Program,
        cpus: u32,
        (round, rounds): (u64, u64),
    ) -> Result<Preset, PredictError> {
        let mut sets = if self.is_recorded { prices(program, round, rounds) } else { Vec::new() };
        sets.extend(self.sets.iter().cloned());
        let loaded = Preset::load_with_cpus(&self.machine, &sets, cpus as usize)?;
        let wrong = |error: convoy_kernel::CostsError| PredictError::Costs {
            machine: self.machine.clone(),
            problem: error.to_string(),
        };
        costs_ns(&loaded.value).map_err(wrong)?;
        Ok(loaded.value)
    }
}

/// Returns the recorded prices of switches and wakeups: in the first round the medians, in the
/// others from the lower to the upper quartiles, all prices together, since a busy hour raises all
/// of them.
fn prices(program: &Program, round: u64, rounds: u64) -> Vec<Set> {
    let part = match rounds {
        _ if round == 1 => 1.0,
        0..3 => 0.0,
        rounds => 2.0 * (round - 2) as f64 / (rounds - 2) as f64,
    };
    let between = |[low, median, high]: [f64; 3]| {
        if part < 1.0 {
            low + part * (median - low)
        } else {
            median + (part - 1.0) * (high - median)
        }
    };
    let set = |(key, ns): (&String, &[f64; 3])| {
        let path: Vec<&str> = key.split('.').collect();
        let value = format!("{:.1}", between(*ns).min(hour::MOST_NS));
        Set::machine(&path, value, format!("{key} of the record"))
    };
    program.prices_ns.iter().filter(|(_, ns)| hour::is_price(ns)).map(set).collect()
}
