//! Reliability of a measurement: the activity of other programs on the machine during it.
//!
//! Loads, comparisons and searches share this module, so that a disturbance has the same wording
//! and the same consequence everywhere: the sentence is printed below the result and stored in its
//! record, and a disturbed measurement is not compared with an undisturbed one.

use serde::{Deserialize, Serialize};

/// CPUs that others may use before it is said: the ticks of a window of 0.3 s on two CPUs are 60,
/// and rounding alone makes two of them.
const QUIET_CPUS: f64 = 0.15;

/// CPUs that a hypervisor may take before it is said.
const QUIET_STEAL_CPUS: f64 = 0.05;

/// Share of the time in which some program may wait for memory before it is said.
const QUIET_STALLS: f64 = 0.01;

/// Shortest time, in seconds, in which the ticks of 10 ms show the CPU time of other programs. A
/// shorter measurement needs as many ticks as this one to exceed the rounding error.
const TICKS_S: f64 = 0.3;

/// What else a machine did during one or several measurements. A number that the kernel does not
/// report is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disturbance {
    /// How long was measured, seconds.
    pub seconds: f64,
    /// CPU time of other programs, seconds; a little below zero where ticks were rounded.
    pub others_s: f64,
    /// CPU time that a hypervisor gave to others, seconds.
    pub stolen_s: f64,
    /// How often CPUs were slowed down: by heat, or by the quota of a control group.
    pub throttled: u64,
    /// Time in which some program waited for memory, seconds.
    pub stalled_s: f64,
}

impl Disturbance {
    /// Adds the disturbance of another measurement.
    pub fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.others_s += other.others_s;
        self.stolen_s += other.stolen_s;
        self.throttled += other.throttled;
        self.stalled_s += other.stalled_s;
    }

    /// Each kind of disturbance that counts; none on a quiet machine.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let counted = self.seconds.max(TICKS_S);
        let [others, stolen, stalled] =
            [self.others_s, self.stolen_s, self.stalled_s].map(|s| s / self.seconds.max(0.01));
        if self.others_s > QUIET_CPUS * counted {
            reasons.push(format!("other programs used {others:.2} CPUs"));
        }
        if self.stolen_s > QUIET_STEAL_CPUS * counted {
            reasons.push(format!("a hypervisor took {stolen:.2} CPUs"));
        }
        if self.stalled_s > QUIET_STALLS * counted {
            let percent = 100.0 * stalled;
            reasons.push(format!("programs waited for memory in {percent:.0} % of the time"));
        }
        if self.throttled > 0 {
            let count = self.throttled;
            reasons.push(format!("CPUs were slowed down {count} times (heat, or a quota)"));
        }
        reasons
    }

    /// Returns the warning below unreliable numbers.
    pub fn sentence(&self) -> Option<String> {
        let reasons = self.reasons();
        (!reasons.is_empty()).then(|| {
            let reasons = reasons.join("; ");
            format!("These results are unreliable: {reasons}. Repeat on a quiet machine.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disturbance_is_named_and_a_quiet_machine_is_not() {
        let quiet =
            Disturbance { seconds: 2.0, others_s: 0.1, stolen_s: 0.05, ..Disturbance::default() };
        assert_eq!(quiet.sentence(), None);
        assert_eq!(Disturbance { others_s: -0.3, ..quiet }.sentence(), None);
        // In a short measurement four ticks may be rounding; ten are another program.
        let short = Disturbance { seconds: 0.1, stolen_s: 0.0, ..quiet };
        assert_eq!(Disturbance { others_s: 0.04, ..short }.sentence(), None);
        let busy = Disturbance { others_s: 0.1, ..short }.sentence().expect("disturbed");
        assert!(busy.contains("used 1.00 CPUs"), "{busy}");
        assert_eq!(Disturbance::default().sentence(), None);
        // What failed before it began was not measured for any time.
        let none = Disturbance { seconds: 0.0, stalled_s: 0.01, ..quiet };
        assert!(none.sentence().is_none_or(|text| !text.contains("inf")), "{none:?}");
        let mut all =
            Disturbance { others_s: 1.0, stolen_s: 0.4, throttled: 3, stalled_s: 0.1, ..quiet };
        all.add(&quiet);
        let text = all.sentence().expect("disturbed");
        for words in ["used 0.28 CPUs", "took 0.11 CPUs", "memory in 2 %", "slowed down 3 times"] {
            assert!(text.contains(words), "{text}");
        }
    }
}
