//! Rules of signals that a kernel preset names.

use schemars::JsonSchema;
use serde::Deserialize;

/// Signals, `[signals]` of a preset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRules {
    /// Each sent signal is counted for the sending user until it is delivered, with locked
    /// instructions on a line that all processes of the user share. All of these kernels do it;
    /// where the file says nothing it is part of the prices of the calls.
    #[serde(default)]
    pub user_counts: bool,
}
