//! Searches in parallel: `find DIRECTORY -type f | xargs grep TEXT`, several at a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{
    LARGE_BUFFER, Start, execute, finish, image, list, make_program, read_in, start, work,
    write_file,
};
use crate::api::Kernel;
use crate::draw::Lcg;
use crate::jobs::{JobError, call};

/// Amounts of a search. Where there are two numbers, each tree has a drawn one between them; the
/// trees are the same in every run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// Concurrent searches, each in a separate tree.
    #[schemars(range(min = 1, max = 10_000))]
    pub instances: u32,
    /// Files of a tree.
    pub files: [u32; 2],
    /// Directories of a tree.
    pub directories: [u32; 2],
    /// Bytes of a tree.
    pub bytes: [u64; 2],
    /// Loops of 12 additions that a search of one file takes.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub loops_per_file: u64,
    /// Files that one process searches, at most.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub files_per_search: u32,
    /// The program that searches files.
    pub search: Start,
    /// The program that walks the tree.
    pub walk: Start,
}

/// One tree: directories in its root, with files in each.
#[derive(Clone, Copy, Debug)]
struct Tree {
    files: u32,
    directories: u32,
    bytes: u64,
}

impl Tree {
    /// Files of directory `index`.
    fn files_of(self, index: u32) -> u32 {
        (self.files + index) / self.directories
    }
}

impl Find {
    fn tree(&self, instance: u32) -> Tree {
        let mut draw = Lcg::for_user(0, instance);
        let mut of = |[low, high]: [u64; 2]| low + draw.draw_below(high.saturating_sub(low) + 1);
        Tree {
            files: of(self.files.map(u64::from)) as u32,
            directories: of(self.directories.map(u64::from)).max(1) as u32,
            bytes: of(self.bytes),
        }
    }

    pub(super) fn prepare<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        make_program(k, directory, "grep", self.search)?;
        make_program(k, directory, "find", self.walk)?;
        for instance in 0..self.instances {
            let root = format!("{directory}/t{instance}");
            call("mkdir", k.mkdir(&root))?;
            let tree = self.tree(instance);
            for at in 0..tree.directories {
                let own = format!("{root}/d{at}");
                call("mkdir", k.mkdir(&own))?;
                for file in 0..tree.files_of(at) {
                    let bytes = tree.bytes / u64::from(tree.files.max(1));
                    write_file(k, &format!("{own}/f{file}"), bytes)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn run<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        for instance in 0..self.instances {
            let (this, directory) = (self.clone(), directory.to_owned());
            start(k, move |k| this.search_tree(k, &directory, instance))?;
        }
        (0..self.instances).try_for_each(|_| finish(k))
    }

    /// One search.
    fn search_tree<K: Kernel>(
        &self,
        k: &mut K,
        directory: &str,
        instance: u32,
    ) -> Result<(), JobError> {
        execute(k, &image(directory, "find", self.walk))?;
        let root = format!("{directory}/t{instance}");
        let tree = self.tree(instance);
        list(k, &root)?;
        let mut found = Vec::new();
        for at in 0..tree.directories {
            let own = format!("{root}/d{at}");
            call("stat", k.stat(&own))?;
            list(k, &own)?;
            for file in 0..tree.files_of(at) {
                let path = format!("{own}/f{file}");
                call("stat", k.stat(&path))?;
                found.push(path);
            }
        }
        for paths in found.chunks(self.files_per_search as usize) {
            let (grep, loops) = (image(directory, "grep", self.search), self.loops_per_file);
            let paths = paths.to_vec();
            start(k, move |k| {
                execute(k, &grep)?;
                paths.iter().try_for_each(|path| {
                    read_in(k, path, LARGE_BUFFER)?;
                    work(k, loops)
                })
            })?;
            finish(k)?;
        }
        Ok(())
    }
}
