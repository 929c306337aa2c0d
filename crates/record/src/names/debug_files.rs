//! Adds names to a record later, for files that were gone when it was made, from a directory that
//! contains these files or their debug data.

use std::path::{Path, PathBuf};

use crate::names::mapped_file::Identity;
use crate::names::{LOCK_OF, Names};
use crate::record::{Process, Record};

impl Record {
    /// Names the places in missing files, from files with the same build IDs below `directory`.
    /// Returns the number of files found there and the number of missing files.
    pub fn name_from(&mut self, directory: &Path) -> (usize, usize) {
        self.name_by(|id| Identity { kind: 0, build_id: id.to_owned() }.find_below(directory))
    }

    /// Like [`Self::name_from`], with the files that `find` returns for their build IDs, which are
    /// hexadecimal digits.
    pub fn name_by(&mut self, find: impl Fn(&str) -> Option<PathBuf>) -> (usize, usize) {
        let (mut found, mut all) = (0, 0);
        for process in &mut self.processes {
            for (file, build_id) in std::mem::take(&mut process.gone) {
                all += 1;
                let is_id = !build_id.is_empty() && build_id.bytes().all(|b| b.is_ascii_hexdigit());
                let Some(path) = Some(&*build_id).filter(|_| is_id).and_then(&find) else {
                    process.gone.push((file, build_id));
                    continue;
                };
                found += 1;
                rename(process, &file, &Names::of_file(&path));
            }
        }
        (found, all)
    }
}

/// Names the locks and places of a process that are in one file.
fn rename(process: &mut Process, file: &str, names: &Names) {
    let mark = format!("{file}+0x");
    let offset = |text: &str| {
        let digits = text.strip_prefix(&mark)?;
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        Some((u64::from_str_radix(&digits[..end], 16).ok()?, digits[end..].to_owned()))
    };
    let place = |text: &str| {
        let (at, _) = offset(text)?;
        Some(names.place(at, &[])).filter(|name| !name.starts_with("0x"))
    };
    let named = |text: &str| match text.strip_prefix(LOCK_OF) {
        Some(text) => Some(format!("{LOCK_OF}{}", place(text)?)),
        None => names.variable(offset(text)?.0),
    };
    let Process { locks, futexes, runtime_locks, .. } = process;
    for lock in [locks, futexes, runtime_locks].into_iter().flatten() {
        if let Some(name) = named(&lock.name) {
            lock.name = name;
        }
        if let Some(name) = named(&lock.mutex) {
            lock.mutex = name;
        }
        for site in &mut lock.sites {
            if let Some(name) = place(&site.place) {
                site.place = name;
            }
        }
    }
}
