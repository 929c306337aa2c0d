//! The control groups that contain this process, in both versions of that file system.

use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// A control group that contains this process, for one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    /// Directory of its files.
    directory: PathBuf,
    /// Whether it is of the second version.
    is_second: bool,
}

/// Returns the group of this process and all above it, for a controller. In a container the
/// process's own group is often the root of the mount, so some of them may not exist.
fn groups(controller: &str) -> Vec<Group> {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    listed(&text, controller, Path::new(MOUNT))
}

/// Returns the groups in a text like `/proc/self/cgroup`.
fn listed(text: &str, controller: &str, mount: &Path) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, is_second) = if controllers.is_empty() {
            (mount.to_owned(), true)
        } else if controllers.split(',').any(|name| name == controller) {
            (mount.join(controller), false)
        } else {
            continue;
        };
        groups.extend(Path::new(path).ancestors().map(|group| Group {
            directory: root.join(group.strip_prefix("/").unwrap_or(group)),
            is_second,
        }));
    }
    groups
}

/// Returns the number after `key` in a file of lines `key number`.
fn statistic(path: &Path, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Returns how often the group of this process, or one above it, was slowed down by its quota of
/// CPU time.
pub(crate) fn throttled() -> u64 {
    let files = groups("cpu").into_iter().map(|group| group.directory.join("cpu.stat"));
    files.filter_map(|file| statistic(&file, "nr_throttled")).sum()
}

/// A controller with a limit, and its files: limit and usage, in the second version and in the
/// first.
#[derive(Debug)]
pub struct Controller {
    name: &'static str,
    second: [&'static str; 2],
    first: [&'static str; 2],
    /// Fields of `memory.stat` that count as used and that the kernel reclaims if memory is short:
    /// in the second version, and in the first with the groups below.
    reclaimable: [&'static [&'static str]; 2],
}

/// The number of processes and threads.
pub const PIDS: Controller = Controller {
    name: "pids",
    second: ["pids.max", "pids.current"],
    first: ["pids.max", "pids.current"],
    reclaimable: [&[], &[]],
};
/// Memory in bytes. Pages of an in-memory file system count, and the kernel ends a process of a
/// group that exceeds its limit.
pub const MEMORY: Controller = Controller {
    name: "memory",
    second: ["memory.max", "memory.current"],
    first: ["memory.limit_in_bytes", "memory.usage_in_bytes"],
    // Pages of files, without files of a tmpfs.
    reclaimable: [&["active_file", "inactive_file"], &["total_active_file", "total_inactive_file"]],
};

/// Returns what a controller still permits in the group of this process and in the groups above it,
/// with the file that contains the limit. Returns `None` if there is no limit.
pub fn left(controller: &Controller) -> Option<(u64, String)> {
    least(groups(controller.name), controller)
}

fn least(groups: Vec<Group>, controller: &Controller) -> Option<(u64, String)> {
    let left = groups.into_iter().filter_map(|group| group.left(controller));
    left.min_by_key(|(left, _)| *left)
}

impl Group {
    fn left(&self, controller: &Controller) -> Option<(u64, String)> {
        /// Values from here on mean no limit: version 1 has no special value for that.
        const NONE: u64 = 1 << 60;
        let [second, first] = controller.reclaimable;
        let ([limit, usage], reclaimable) =
            if self.is_second { (controller.second, second) } else { (controller.first, first) };
        let file = |name: &str| self.directory.join(name);
        let number =
            |name: &str| std::fs::read_to_string(file(name)).ok()?.trim().parse::<u64>().ok();
        let most = number(limit).filter(|most| *most < NONE)?;
        let statistics = file("memory.stat");
        let freed: u64 = reclaimable.iter().filter_map(|key| statistic(&statistics, key)).sum();
        let used = number(usage).unwrap_or(0).saturating_sub(freed);
        Some((most.saturating_sub(used), file(limit).display().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found_up_to_the_root() {
        let text = "4:memory:/a/b\n3:cpu,cpuacct:/\n0::/c\n";
        let directories = |controller| {
            let groups = listed(text, controller, Path::new("/m")).into_iter();
            groups.map(|it| (it.directory.display().to_string(), it.is_second)).collect::<Vec<_>>()
        };
        let first = |path: &str| (format!("/m/{path}"), false);
        let second = |path: &str| (format!("/m/{path}"), true);
        assert_eq!(
            directories("memory"),
            [first("memory/a/b"), first("memory/a"), first("memory/"), second("c"), second("")]
        );
        assert_eq!(directories("cpu"), [first("cpu/"), second("c"), second("")]);
    }

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
        let within =
            |text: &str| least(listed(text, MEMORY.name, &mount), &MEMORY).map(|(bytes, _)| bytes);
        put("a", &[("memory.max", "1000\n"), ("memory.current", "900\n")]);
        put("a/b", &[("memory.max", "max\n"), ("memory.current", "5\n")]);
        assert_eq!(within("0::/a/b\n"), Some(100));
        put("a", &[("memory.stat", "anon 3\ninactive_file 250\nactive_file 1\n")]);
        assert_eq!(within("0::/a/b\n"), Some(351));
        put("a/b", &[("memory.max", "40\n")]);
        assert_eq!(within("0::/a/b\n"), Some(35));
        // The path of a container, of which only the last part is mounted.
        put("memory", &[("memory.limit_in_bytes", "70\n"), ("memory.usage_in_bytes", "30\n")]);
        put("memory/x", &[("memory.limit_in_bytes", "9223372036854771712\n")]);
        assert_eq!(within("5:cpu,memory:/docker/1\n"), Some(40));
        assert_eq!(within("5:memory:/x\n3:cpu:/\n"), Some(40));
        assert_eq!(within("3:cpu:/\n0::/\n\n"), None);
        std::fs::remove_dir_all(mount).expect("it goes away");
    }
    #[test]
    fn pages_of_files_do_not_use_up_the_memory_of_a_group() {
        let name = format!("convoy-group-memory-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let write =
            |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("written");
        write("memory.limit_in_bytes", "1000000\n");
        write("memory.usage_in_bytes", "900000\n");
        write(
            "memory.stat",
            "active_file 1\ntotal_active_file 300000\ntotal_inactive_file 500000\n",
        );
        let group = Group { directory: directory.clone(), is_second: false };
        let file = directory.join("memory.limit_in_bytes").display().to_string();
        assert_eq!(group.left(&MEMORY), Some((900_000, file)));
        write("memory.max", "max\n");
        let second = Group { is_second: true, ..group };
        assert_eq!(second.left(&MEMORY), None);
        write("memory.max", "500000\n");
        write("memory.current", "400000\n");
        write("memory.stat", "anon 7\nactive_file 50000\ninactive_file 50000\n");
        assert_eq!(second.left(&MEMORY).map(|(left, _)| left), Some(200_000));
        std::fs::remove_dir_all(directory).expect("it goes away");
    }
}
