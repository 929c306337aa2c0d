//! The CPUs of this machine, as the kernel describes them.

use crate::clock::usable_cpus;

/// Returns the numbers in a list such as `0,2-3`, or `None` if it is not one.
pub fn parse_list(list: &str) -> Option<Vec<usize>> {
    /// No kernel supports more CPUs.
    const MOST: usize = 1 << 16;
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let [first, last] = [first, last].map(|number| number.trim().parse::<usize>().ok());
        let (first, last) = (first?, last.filter(|last| *last < MOST)?);
        if first > last {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Returns the numbers of the CPUs that are online; those that this process may use if the kernel
/// does not report them.
pub fn online() -> Vec<usize> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse_list(&list).unwrap_or_else(usable_cpus)
}

/// Returns the model of the CPUs, or `None` if the kernel does not report it.
pub fn model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Returns the largest number of CPUs that share a core, or 0 if the kernel does not report it.
pub fn threads_per_core() -> u32 {
    let cpus = std::fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let lists = cpus.filter_map(|cpu| {
        std::fs::read_to_string(cpu.path().join("topology/thread_siblings_list")).ok()
    });
    lists.filter_map(|list| Some(parse_list(&list)?.len() as u32)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_list("0,2-4\n"), Some(vec![0, 2, 3, 4]));
        let count = |list: &str| parse_list(list).map(|cpus| cpus.len());
        assert_eq!(["0", "0,64", "0-1", "0-3,8"].map(count), [Some(1), Some(2), Some(2), Some(5)]);
        assert!(usable_cpus().iter().all(|cpu| online().contains(cpu)), "{:?}", online());
        for wrong in ["", "x", "3-1", "1-", "0-99999999"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }
}
