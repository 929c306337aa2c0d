//! The virtual machines of a prediction: the recorded one, and the ones that are asked for.
//!
//! A record names a processor and a number of CPUs. The recorded machine is the real one that is
//! nearest to both, with the prices of switches and wakeups that were measured after the recording.
//! A larger machine is the nearest real one of that size; wakeups keep their recorded prices, as
//! the larger machine is taken for one of the same kind, a guest of a hypervisor if the recorded
//! one is. A machine that is named by its preset keeps all of its own prices.

use convoy_calibrate::hour::{self, Quartiles};
use convoy_catalogue::Set;
use convoy_kernel::{KernelPreset, costs_ns};
use convoy_machine::{Preset, nearest as nearest_machine};
use convoy_record::Program;

use crate::PredictError;

/// The presets of a prediction.
#[derive(Clone, Debug)]
pub struct Machines {
    /// The kernel.
    pub kernel: KernelPreset,
    /// Name or path of the machine preset of the rows; `None`: the nearest real machine.
    pub machine: Option<String>,
    /// Changes of the machine preset.
    pub sets: Vec<Set>,
}

/// The round of a simulation and the number of rounds: prices differ between rounds.
pub(crate) type Round = (u64, u64);

impl Machines {
    /// Returns the machine on which the program was recorded.
    ///
    /// # Errors
    /// [`PredictError::Preset`], [`PredictError::Costs`].
    pub(crate) fn recorded(&self, program: &Program, round: Round) -> Result<Preset, PredictError> {
        let sets = if self.machine.is_none() { &self.sets[..] } else { &[] };
        Ok(nearest(program, program.cpus.max(1), round, sets)?.0)
    }

    /// Returns the machine of a row with so many CPUs, and which one it is.
    ///
    /// # Errors
    /// [`PredictError::Preset`], [`PredictError::Costs`].
    pub(crate) fn asked(
        &self,
        program: &Program,
        cpus: u32,
        round: Round,
    ) -> Result<(Preset, String), PredictError> {
        let Some(name) = &self.machine else { return nearest(program, cpus, round, &self.sets) };
        let loaded = Preset::load_with_cpus(name, &self.sets, cpus as usize)?;
        let plural = if cpus == 1 { "CPU" } else { "CPUs" };
        let says = format!("{cpus} {plural} of {}", loaded.label());
        Ok((checked(loaded.value)?, says))
    }
}

/// Returns the nearest real machine with so many CPUs, at the recorded prices.
fn nearest(
    program: &Program,
    cpus: u32,
    round: Round,
    sets: &[Set],
) -> Result<(Preset, String), PredictError> {
    let target = nearest_machine(cpus as usize, &program.cpu_model)?;
    let mut preset = target.preset;
    if !sets.is_empty() {
        let changed = convoy_catalogue::load::<Preset>(&preset.name, sets)?.value;
        preset = Preset { topology: preset.topology, numa: preset.numa, ..changed };
    }
    for (key, ns) in &hour::or_quiet(&program.prices_ns) {
        put(&mut preset, key, between(ns, round));
    }
    Ok((checked(preset)?, target.says))
}

fn checked(preset: Preset) -> Result<Preset, PredictError> {
    let wrong = |error: convoy_kernel::CostsError| PredictError::Costs {
        machine: preset.name.clone(),
        problem: error.to_string(),
    };
    costs_ns(&preset).map_err(wrong)?;
    Ok(preset)
}

/// Puts a recorded price into a preset.
fn put(preset: &mut Preset, key: &str, ns: f64) {
    let prices = &mut preset.price_ns;
    match key {
        "price_ns.switch" => prices.switch = ns,
        "price_ns.ipi" => prices.ipi = ns,
        "price_ns.idle_exit" => prices.idle_exit = ns,
        "guest_ns.send" => preset.guest_ns.get_or_insert(hour::GUEST).send = ns,
        "guest_ns.halted_exit" => preset.guest_ns.get_or_insert(hour::GUEST).halted_exit = ns,
        _ => {}
    }
}

/// Returns a price of a round: in the first the median, in the others from the lower to the upper
/// quartile, all prices together, since a busy hour raises all of them.
fn between([low, median, high]: &Quartiles, (round, rounds): Round) -> f64 {
    let part = match rounds {
        _ if round == 1 => 1.0,
        0..3 => 0.0,
        rounds => 2.0 * (round - 2) as f64 / (rounds - 2) as f64,
    };
    if part < 1.0 { low + part * (median - low) } else { median + (part - 1.0) * (high - median) }
}
