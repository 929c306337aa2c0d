//! The control groups that hold this process, in both versions of that file system.

use std::path::Path;

/// A group that this process is in, for one controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Where its files are.
    pub(crate) directory: String,
    /// Whether it is of the second version.
    pub(crate) is_second: bool,
}

/// The group of this process and all above it, as `controller` knows them. In a container the
/// process's own group is often the root of the mount, so some of them may not exist.
pub(crate) fn groups(controller: &str) -> Vec<Group> {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    listed(&text, controller)
}

/// Those that a text like `/proc/self/cgroup` names.
fn listed(text: &str, controller: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, is_second) = if controllers.is_empty() {
            ("/sys/fs/cgroup".to_owned(), true)
        } else if controllers.split(',').any(|name| name == controller) {
            (format!("/sys/fs/cgroup/{controller}"), false)
        } else {
            continue;
        };
        groups.extend(Path::new(path).ancestors().map(|group| Group {
            directory: format!("{root}{}", group.display().to_string().trim_end_matches('/')),
            is_second,
        }));
    }
    groups
}

/// The number behind `key` in a file of lines `key number`.
pub(crate) fn statistic(path: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found_up_to_the_root() {
        let text = "4:memory:/a/b\n3:cpu,cpuacct:/\n0::/c\n";
        let directories = |controller| {
            let groups = listed(text, controller);
            groups.into_iter().map(|it| (it.directory, it.is_second)).collect::<Vec<_>>()
        };
        let first = |path: &str| (format!("/sys/fs/cgroup{path}"), false);
        let second = |path: &str| (format!("/sys/fs/cgroup{path}"), true);
        assert_eq!(
            directories("memory"),
            [first("/memory/a/b"), first("/memory/a"), first("/memory"), second("/c"), second("")]
        );
        assert_eq!(directories("cpu"), [first("/cpu"), second("/c"), second("")]);
    }
}
