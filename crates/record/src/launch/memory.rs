//! Memory that the control groups of this process still permit. Pages of an in-memory file system
//! count towards their limits, and the kernel kills a process of a group that exceeds its limit.

use std::path::Path;

/// Returns the number of bytes that the control groups of this process still permit, or `None` if
/// there is no limit.
pub fn of_groups() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    within(&groups, Path::new("/sys/fs/cgroup"))
}

/// File names of the limit and of the used memory, and the field with the part of it that can be
/// reclaimed, in both versions of control groups.
const NAMES: [[&str; 3]; 2] = [
    ["memory.max", "memory.current", "inactive_file "],
    ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "],
];

/// Like `of_groups`, for a list of groups and the directory where they are mounted.
fn within(groups: &str, mount: &Path) -> Option<u64> {
    let mut least = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, Some(kinds), Some(group)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (base, names) = match kinds {
            "" => (mount.to_owned(), NAMES[0]),
            _ if kinds.split(',').any(|kind| kind == "memory") => (mount.join("memory"), NAMES[1]),
            _ => continue,
        };
        // In a container, the path may begin outside of it: then only the mounted part exists.
        let own = base.join(group.trim_start_matches('/'));
        for directory in own.ancestors().take_while(|directory| directory.starts_with(&base)) {
            least = least.into_iter().chain(left(directory, names)).min();
        }
    }
    least
}

/// Returns the number of bytes that one group still permits.
fn left(directory: &Path, [most, used, reclaimable]: [&str; 3]) -> Option<u64> {
    /// Values from here on mean no limit: version 1 has no special value for that.
    const NONE: u64 = 1 << 60;
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let most = number(most).filter(|most| *most < NONE)?;
    let statistics = read("memory.stat").unwrap_or_default();
    let free = statistics.lines().find_map(|line| line.strip_prefix(reclaimable)?.parse().ok());
    Some(most.saturating_sub(number(used)?.saturating_sub(free.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_groups_above_counts() {
        let mount = std::env::temp_dir().join(format!("convoy-groups-{}", std::process::id()));
        let put = |at: &str, files: &[(&str, &str)]| {
            let directory = mount.join(at);
            std::fs::create_dir_all(&directory).expect("a directory");
            for (name, text) in files {
                std::fs::write(directory.join(name), text).expect("written");
            }
        };
        put("a", &[("memory.max", "1000\n"), ("memory.current", "900\n")]);
        put("a/b", &[("memory.max", "max\n"), ("memory.current", "5\n")]);
        assert_eq!(within("0::/a/b\n", &mount), Some(100));
        put("a", &[("memory.stat", "anon 3\ninactive_file 250\nactive_file 1\n")]);
        assert_eq!(within("0::/a/b\n", &mount), Some(350));
        put("a/b", &[("memory.max", "40\n")]);
        assert_eq!(within("0::/a/b\n", &mount), Some(35));
        // The path of a container, of which only the last part is mounted.
        put("memory", &[("memory.limit_in_bytes", "70\n"), ("memory.usage_in_bytes", "30\n")]);
        put("memory/x", &[("memory.limit_in_bytes", "9223372036854771712\n")]);
        assert_eq!(within("5:cpu,memory:/docker/1\n", &mount), Some(40));
        assert_eq!(within("5:memory:/x\n3:cpu:/\n", &mount), Some(40));
        assert_eq!(within("3:cpu:/\n0::/\n\n", &mount), None);
        std::fs::remove_dir_all(mount).expect("it goes away");
    }
}
