//! Commands around the measured window.

use super::stop::Stop;

/// Commands that a shell runs around the measured window of each execution, for profilers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// When all users are ready, just before the window.
    pub start: Option<String>,
    /// When the last user has ended.
    pub stop: Option<String>,
}

impl Hooks {
    /// Runs `command` to its end with the number of users in `CONVOY_USERS`.
    pub(super) fn run(
        command: Option<&String>,
        name: &'static str,
        users: u32,
    ) -> Result<(), Stop> {
        let Some(command) = command else { return Ok(()) };
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", command]).env("CONVOY_USERS", users.to_string());
        match shell.stdin(std::process::Stdio::null()).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Stop::Hook { name, status: status.code().unwrap_or(-1) }),
            Err(_) => Err(Stop::Hook { name, status: -1 }),
        }
    }
}
