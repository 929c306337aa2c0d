//! The description of this machine in records.

use convoy_workload::calibration::CalibrationHost;

use crate::clock;

/// Returns the kernel's description of this machine.
pub fn describe_host() -> CalibrationHost {
    let [cpu, kernel] = ["/proc/cpuinfo", "/proc/sys/kernel/osrelease"]
        .map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name").and_then(|rest| rest.split_once(':')))
        .map_or_else(|| "unknown".to_owned(), |(_, model)| model.trim().to_owned());
    CalibrationHost {
        cpu,
        cpus: clock::cpus(),
        kernel: kernel.trim().split('-').next().unwrap_or_default().to_owned(),
        date: convoy_workload::calendar(clock::unix_seconds()) + "Z",
    }
}

/// Returns the largest number of CPUs that share a core, as the kernel shows them, or 0 if it does
/// not.
pub fn threads_per_core() -> u32 {
    let cpus = std::fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let lists = cpus.filter_map(|cpu| {
        std::fs::read_to_string(cpu.path().join("topology/thread_siblings_list")).ok()
    });
    lists.map(|list| members(&list)).max().unwrap_or(0)
}

/// Returns the number of members of a list such as `0-3,8`.
fn members(list: &str) -> u32 {
    let ranges = list.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let [first, last] = [first, last].map(|number| number.trim().parse::<u32>().ok());
        Some(last?.checked_sub(first?)? + 1)
    });
    ranges.sum()
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
