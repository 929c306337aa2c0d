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

/// Returns the largest number of CPUs that share a core, as the kernel shows them, or 0 if it does
/// not.
pub fn threads_per_core() -> u32 {
    let cpus = std::fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let list = |cpu: std::fs::DirEntry| {
        std::fs::read_to_string(cpu.path().join("topology/thread_siblings_list")).ok()
    };
    cpus.filter_map(list).map(|list| members(&list)).max().unwrap_or(0)
}

/// Returns the number of members of a list such as `0-3,8`.
fn members(list: &str) -> u32 {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(number(last)?.checked_sub(number(first)?)? + 1)
    };
    list.split(',').filter_map(range).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!(["0", "0,64", "0-1", "0-3,8\n", "", "x"].map(members), [1, 2, 2, 5, 0, 0]);
    }

    #[test]
    fn the_host_is_described() {
        let host = describe_host();
        assert!(host.cpus >= 1 && host.date.ends_with('Z') && !host.kernel.is_empty());
    }
}
