//! CPUs that other programs used while the program was recorded.

use convoy_record::Program;

/// Share of the CPUs used by other programs above which the recorded throughput differs from the
/// throughput of the program alone.
const MUCH: f64 = 0.1;

/// Returns the mean number of CPUs that other programs used while the program was recorded; `None`
/// if it is too small to matter.
pub(crate) fn others_cpus(program: &Program) -> Option<f64> {
    let cpus = program.other_cpus();
    (cpus > MUCH * f64::from(program.cpus)).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_counted_for_as_long_as_they_were_watched() {
        let mut program = Program { wall_s: 1.0, ..Program::default() };
        program.disturbance.others_s = 3.0;
        assert!((program.other_cpus() - 3.0).abs() < 1e-9);
        program.disturbance.seconds = 2.0;
        assert!((program.other_cpus() - 1.5).abs() < 1e-9);
    }
}
