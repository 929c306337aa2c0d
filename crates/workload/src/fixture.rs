//! The files that the jobs find in their work directory: the same names on every machine and every
//! kernel.
//!
//! AIM7 unpacks a tree of 24 directories with 320 names of one file for `disk_src`, and reads
//! `/bin` in `dir_rtns_1`, at a cost that depends on the installed programs. Here both are made
//! from this table.
//!
//! | name | what |
//! |---|---|
//! | `tree/d0` … `tree/d3/s1/s2/s3/s4/s5` | directories; together 320 links to one small file |
//! | `tree/dirlist` | the list of names that `disk_src` reads |
//! | `localtime` | the replacement for the time zone file, which `string_rtns` checks; with
//! several work directories `/etc/localtime` |
//! | `bin/` | the directory that `dir_rtns_1` and the shell jobs list: 100 links to one small file
//! |
//! | `tmpa.common` | the file that `disk_rd`, `disk_cp` and `sync_disk_cp` read; as large as a
//! user's file |

use crate::api::{Kernel, Open};

use crate::jobs::{BLOCK_BYTES, JobEnv, JobError, call};

/// Directories of the tree: four chains of six.
pub const DIRECTORIES: usize = 24;
/// Nested directories of one chain.
const CHAIN: usize = 6;
/// Names of the single file in the tree.
pub const TREE_NAMES: usize = 320;
/// Names in the `bin` directory.
pub const BIN_NAMES: usize = 100;
/// Names in the list.
pub const LIST_NAMES: usize = 100;
/// Names of the list that exist; `disk_src` makes and removes the others.
pub const LIST_EXISTING: usize = 57;
/// Length of the list, bytes, as in the originals: most of it is comments, which are read but
/// ignored.
pub const LIST_BYTES: usize = 10_726;

/// The path, below `tree`, of directory number `index`.
pub fn directory_name(index: usize) -> String {
    let inner = ["", "/s1", "/s1/s2", "/s1/s2/s3", "/s1/s2/s3/s4", "/s1/s2/s3/s4/s5"];
    format!("d{}{}", index / CHAIN, inner[index % CHAIN])
}

/// The path, below `tree`, of the tree's name number `index`: 4.5 components on average.
pub fn tree_name(index: usize) -> String {
    format!("{}/file{index:03}", directory_name(index % DIRECTORIES))
}

/// The list's name number `index` and whether it exists.
pub fn list_name(index: usize) -> (String, bool) {
    // 57 and 100 have no common factor: the existing names are spread over the list.
    let exists = index * LIST_EXISTING % LIST_NAMES < LIST_EXISTING;
    let name = tree_name(index * TREE_NAMES / LIST_NAMES);
    if exists { (name, true) } else { (format!("{name}.new"), false) }
}

/// The text of `tree/dirlist`: one name a line, `s` before those to look up and `c` before those to
/// create, and comments.
pub fn list_text() -> String {
    fn line(index: usize) -> String {
        let (name, exists) = list_name(index);
        format!("{} {name}\n", if exists { 's' } else { 'c' })
    }
    let mut text: String = (0..LIST_NAMES).map(line).collect();
    while text.len() < LIST_BYTES {
        let rest = LIST_BYTES - text.len();
        text.push_str(&"#".repeat(rest.min(80) - 1));
        text.push('\n');
    }
    text
}

/// Makes the directories and names of the fixture below `env.directory`, which must exist.
///
/// # Errors
/// The first system call that fails.
pub fn make_tree<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let tree = env.path("tree");
    call("mkdir", k.mkdir(&tree))?;
    for directory in 0..DIRECTORIES {
        call("mkdir", k.mkdir(&format!("{tree}/{}", directory_name(directory))))?;
    }
    let first = format!("{tree}/{}", tree_name(0));
    make_file(k, &first, b"one file of many names\n")?;
    for index in 1..TREE_NAMES {
        call("link", k.link(&first, &format!("{tree}/{}", tree_name(index))))?;
    }
    make_file(k, &format!("{tree}/dirlist"), list_text().as_bytes())?;
    if env.listed.is_none() {
        make_zone(k, env)?;
        call("mkdir", k.mkdir(&env.listed()))?;
        make_listed(k, env)?;
    }
    Ok(())
}

/// Makes the time zone's file.
fn make_zone<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    make_file(k, &env.zone(), b"UTC0\n")
}

/// Fills the directory that is listed, which must exist, with its names; where it is the machine's,
/// also makes the machine's time zone.
///
/// # Errors
/// The first system call that fails.
pub fn make_listed<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    if env.listed.is_some() {
        make_zone(k, env)?;
    }
    let bin = env.listed();
    let program = format!("{bin}/program000");
    make_file(k, &program, b"not a program\n")?;
    for index in 1..BIN_NAMES {
        call("link", k.link(&program, &format!("{bin}/program{index:03}")))?;
    }
    Ok(())
}

/// Makes or replaces `tmpa.common`: `env.file_kb` blocks of 1 KB, at least one.
///
/// # Errors
/// The first system call that fails.
pub fn make_common<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let fd = call("open", k.open(&env.path("tmpa.common"), Open::CREAT))?;
    let block = [b'c'; BLOCK_BYTES];
    for _ in 0..env.file_kb.max(1) {
        crate::jobs::write_all(k, fd, &block)?;
    }
    call("close", k.close(fd))
}

fn make_file<K: Kernel>(k: &mut K, path: &str, content: &[u8]) -> Result<(), JobError> {
    let fd = call("open", k.open(path, Open::CREAT))?;
    crate::jobs::write_all(k, fd, content)?;
    call("close", k.close(fd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_as_long_and_as_deep_as_the_originals() {
        let existing = (0..LIST_NAMES).filter(|&index| list_name(index).1).count();
        assert_eq!(existing, LIST_EXISTING);
        let mut names: Vec<String> = (0..LIST_NAMES).map(|index| list_name(index).0).collect();
        let components: usize = names.iter().map(|name| name.split('/').count()).sum();
        assert!((430..=470).contains(&components), "{components} in {LIST_NAMES} names");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), LIST_NAMES);
        assert_eq!(list_text().len(), LIST_BYTES);
    }
}
