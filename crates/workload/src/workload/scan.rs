//! One file read from the disk in order, as `hdparm -t` reads a disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::{finish, start, write_file};
use crate::api::{Kernel, Open};
use crate::jobs::{JobError, call};

/// Amounts of such a reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scan {
    /// Bytes that are read.
    #[schemars(range(min = 4096, max = 1_073_741_824))]
    pub bytes: u64,
    /// Bytes of one read.
    #[schemars(range(min = 4096, max = 16_777_216))]
    pub block: u32,
}

/// The file.
fn path(directory: &str) -> String {
    format!("{directory}/device")
}

impl Scan {
    pub(super) fn prepare<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        write_file(k, &path(directory), self.bytes)?;
        // hdparm flushes the buffers of the disk before it looks at the clock.
        call("forget", k.forget(&path(directory)))
    }

    pub(super) fn run<K: Kernel>(&self, k: &mut K, directory: &str) -> Result<(), JobError> {
        let (block, path) = (self.block as usize, path(directory));
        start(k, move |k| {
            let mut buffer = vec![0; block];
            let fd = call("open", k.open(&path, Open::READ))?;
            while call("read", k.read(fd, &mut buffer))? > 0 {}
            call("close", k.close(fd))
        })?;
        finish(k)
    }
}
