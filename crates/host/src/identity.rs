//! The description of this machine in records.

use std::path::Path;

use convoy_workload::calibration::CalibrationHost;

use crate::clock;

/// Returns the kernel's description of this machine.
pub fn describe_host() -> CalibrationHost {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name").and_then(|rest| rest.split_once(':')))
        .map_or_else(|| "unknown".to_owned(), |(_, model)| model.trim().to_owned());
    CalibrationHost {
        cpu,
        cpus: clock::cpus(),
        kernel: read("/proc/sys/kernel/osrelease")
            .trim()
            .split('-')
            .next()
            .unwrap_or_default()
            .to_owned(),
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
