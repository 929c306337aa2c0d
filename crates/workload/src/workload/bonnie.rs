//! Files created, checked and removed in one directory, as in bonnie++ with `-n`: the load of a
//! news or cache server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{finish, list, start};
use crate::api::{Kernel, Open};
use crate::draw::Lcg;
use crate::jobs::{JobError, call};

/// Amounts of such a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bonnie {
    /// Concurrent programs, each in a separate directory.
    #[schemars(range(min = 1, max = 10_000))]
    pub instances: u32,
    /// Empty files of each program, created, checked and removed once in order and once in random
    /// order.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub files: u32,
}

/// A number, and letters that differ in kind and length from name to name.
fn name(own: &str, file: u32) -> String {
    let tail = &"xKqUbYmZpWcR"[..(file % 13) as usize];
    format!("{own}/{file:010x}{tail}")
}

impl Bonnie {
    pub(super) fn prepare<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        (0..self.instances)
            .try_for_each(|instance| call("mkdir", k.mkdir(&format!("{directory}/b{instance}"))))
    }

    pub(super) fn run<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        for instance in 0..self.instances {
            let (this, own) = (self.clone(), format!("{directory}/b{instance}"));
            start(k, move |k| {
                pass(k, &own, &(0..this.files).collect::<Vec<_>>(), true)?;
                pass(k, &own, &this.shuffled(instance), false)
            })?;
        }
        (0..self.instances).try_for_each(|_| finish(k))
    }

    /// The numbers of the files in an order that is the same in every run.
    fn shuffled(&self, instance: u32) -> Vec<u32> {
        let mut draw = Lcg::for_user(0, instance);
        let mut order: Vec<u32> = (0..self.files).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, draw.draw_below(last as u64 + 1) as usize);
        }
        order
    }
}

/// Creates, checks and removes all files; if `listed`, reads the names from the directory.
fn pass<K: Kernel>(k: &mut K, own: &str, order: &[u32], listed: bool) -> Result<(), JobError> {
    for &file in order {
        let new = Open { exclusive: true, ..Open::CREAT };
        let fd = call("creat", k.open(&name(own, file), new))?;
        call("close", k.close(fd))?;
    }
    if listed {
        list(k, own)?;
    }
    for &file in order {
        call("stat", k.stat(&name(own, file)))?;
    }
    if listed {
        list(k, own)?;
    }
    order.iter().try_for_each(|&file| call("unlink", k.unlink(&name(own, file))))
}
