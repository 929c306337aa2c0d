//! Where cells are executed.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a cell is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// AIM7 on this machine.
    Host,
    /// AIM7 on the virtual kernel.
    Sim,
    /// Lock loops, on this machine or, with a machine preset, on a virtual one.
    Locks,
    /// Pages in a loop, on a virtual machine.
    Zone,
    /// A workload that is not AIM7, on the virtual kernel.
    Work,
    /// A command on this machine.
    Command,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Sim => "sim",
            Self::Locks => "locks",
            Self::Zone => "zone",
            Self::Work => "work",
            Self::Command => "command",
        })
    }
}
