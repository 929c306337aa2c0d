//! The description of this machine in records.

use convoy_os::{clock, cpus};
use convoy_workload::calibration::CalibrationHost;

/// Returns the kernel's description of this machine.
pub fn describe_host() -> CalibrationHost {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    CalibrationHost {
        cpu: cpus::model().unwrap_or_else(|| "unknown".to_owned()),
        cpus: clock::cpus(),
        kernel: kernel.trim().split('-').next().unwrap_or_default().to_owned(),
        date: convoy_workload::calendar(clock::unix_seconds()) + "Z",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_described() {
        let host = describe_host();
        assert!(host.cpus >= 1 && host.date.ends_with('Z') && !host.kernel.is_empty());
    }
}
