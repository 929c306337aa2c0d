//! The virtual machines of a prediction: the recorded machine, and the requested ones.
//!
//! A record names a processor and a number of CPUs. The recorded machine is the nearest real
//! machine by both, with the prices of switches and wakeups that were measured after the recording.
//! A larger machine is the nearest real one of that size. Its wakeups keep their recorded prices,
//! because it is assumed to be of the same kind: a guest of a hypervisor if the recorded machine is
//! a guest. A machine that is requested by its preset keeps all prices of the preset.

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
    /// Changes to the machine preset.
    pub sets: Vec<Set>,
}

/// The round of a simulation and the number of rounds. Prices differ between rounds.
pub(crate) type Round = (u64, u64);

impl Machines {
    /// Returns the machine on which the program was recorded.
    ///
    /// # Errors
    /// Returns [`PredictError::Preset`] if a preset cannot be loaded, and [`PredictError::Costs`]
    /// if a kernel price of the machine is unknown.
    pub(crate) fn recorded(&self, program: &Program, round: Round) -> Result<Preset, PredictError> {
        let sets = if self.machine.is_none() { &self.sets[..] } else { &[] };
        Ok(nearest(program, program.cpus.max(1), round, sets)?.0)
    }

    /// Returns the machine of a row with this number of CPUs, and a description of it.
    ///
    /// # Errors
    /// Returns [`PredictError::Preset`] if a preset cannot be loaded, and [`PredictError::Costs`]
    /// if a kernel price of the machine is unknown.
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

/// Returns the nearest real machine with this number of CPUs, with the recorded prices.
fn nearest(
    program: &Program,
    cpus: u32,
    round: Round,
    sets: &[Set],
) -> Result<(Preset, String), PredictError> {
    let target = nearest_machine(cpus as usize, &program.cpu_model, program.threads_per_core)?;
    let mut preset = target.preset;
    if !sets.is_empty() {
        let changed = convoy_catalogue::load::<Preset>(&preset.name, sets)?.value;
        preset = Preset { topology: preset.topology, numa: preset.numa, ..changed };
    }
    let measured = hour::or_quiet(&program.prices_ns);
    let unmeasured = || hour::KEYS.iter().filter_map(|key| Some((*key, unknown(&preset, key)?)));
    let prices: Vec<(String, Quartiles)> = if is_unmeasured(program) {
        unmeasured().map(|(key, ns)| (key.to_owned(), ns)).collect()
    } else {
        measured.into_iter().collect()
    };
    for (key, ns) in &prices {
        put(&mut preset, key, between(ns, round));
    }
    Ok((checked(preset)?, target.says))
}

fn checked(preset: Preset) -> Result<Preset, PredictError> {
    costs_ns(&preset).map_err(|error| PredictError::Costs {
        machine: preset.name.clone(),
        problem: error.to_string(),
    })?;
    Ok(preset)
}

/// Returns whether the record lacks the prices of wakeups. A record of one CPU has none to measure.
pub(crate) fn is_unmeasured(program: &Program) -> bool {
    program.cpus > 1 && program.prices_ns.is_empty()
}

/// Returns the range of a price that was not measured: from the price of the preset to the price in
/// a guest, since whether the recorded machine is a guest is not known either.
fn unknown(preset: &Preset, key: &str) -> Option<Quartiles> {
    let guest = preset.guest_ns.as_ref();
    let own = match key {
        "price_ns.ipi" => preset.price_ns.ipi,
        "price_ns.idle_exit" => preset.price_ns.idle_exit,
        "guest_ns.send" => guest.map_or(0.0, |guest| guest.send),
        "guest_ns.halted_exit" => guest.map_or(0.0, |guest| guest.halted_exit),
        _ => return None,
    };
    hour::quiet(key).map(|[_, median, high]| [own.min(median), median, high.max(own)])
}

/// Sets a price of a preset.
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

/// Returns a price for a round: the median in the first, and from the lower to the upper quartile
/// in the others. All prices change together, since a busy hour raises all of them.
fn between([low, median, high]: &Quartiles, (round, rounds): Round) -> f64 {
    let part = match rounds {
        _ if round == 1 => 1.0,
        0..3 => 0.0,
        rounds => 2.0 * (round - 2) as f64 / (rounds - 2) as f64,
    };
    if part < 1.0 { low + part * (median - low) } else { median + (part - 1.0) * (high - median) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakeups_that_were_not_measured_range_from_the_machine_to_a_guest() {
        fn of(prices: &[(&str, Quartiles)]) -> [f64; 3] {
            let prices = prices.iter().map(|(key, ns)| ((*key).to_owned(), *ns)).collect();
            let program = Program { cpus: 2, prices_ns: prices, ..Program::default() };
            [2, 1, 3].map(|round| {
                nearest(&program, 2, (round, 3), &[]).expect("shipped").0.price_ns.idle_exit
            })
        }
        let [low, median, high] = of(&[]);
        assert!(low < median && median < high, "{low} {median} {high}");
        let known = of(&[("price_ns.idle_exit", [7e3, 8e3, 9e3])]);
        assert!([7e3, 8e3, 9e3].iter().zip(known).all(|(ns, known)| (ns - known).abs() < 1.0));
    }
}
