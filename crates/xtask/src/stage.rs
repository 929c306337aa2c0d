//! One stage of a pipeline: a name, a command, how it ended and how long it took.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

pub(crate) enum Ending {
    Passed,
    Failed,
    /// A tool is missing; the text is the cure.
    Missing(&'static str),
    /// A requirement of the stage is missing that shipped code does not need; the text names it.
    Skipped(&'static str),
}

/// Data of a stage for the final table.
struct Stage {
    name: &'static str,
    ending: Ending,
    took: Duration,
    /// CPU time of its commands, seconds: does not depend on the load of the machine.
    cpu_s: f64,
}

/// The stages run so far. All of them run, so one look shows everything that is wrong.
#[derive(Default)]
pub(crate) struct Pipeline {
    stages: Vec<Stage>,
}

impl Pipeline {
    /// Runs `body` as the stage called `name`; an error of `body` fails the stage and is printed.
    pub(crate) fn stage(
        &mut self,
        name: &'static str,
        body: impl FnOnce() -> anyhow::Result<Ending>,
    ) {
        println!("==> {name}");
        let (start, cpu_s) = (Instant::now(), waited_cpu_s());
        let ending = body().unwrap_or_else(|error| {
            println!("{error:#}");
            Ending::Failed
        });
        let (took, cpu_s) = (start.elapsed(), waited_cpu_s() - cpu_s);
        println!("<== {name}: {} in {:.1} s\n", word(&ending), took.as_secs_f64());
        self.stages.push(Stage { name, ending, took, cpu_s });
    }

    /// Prints one line per stage, with its duration and its CPU time.
    pub(crate) fn print_summary(&self) {
        for stage in &self.stages {
            let seconds = stage.took.as_secs_f64();
            let (name, cpu_s) = (stage.name, stage.cpu_s);
            print!("{name:<20} {seconds:>8.1} s {cpu_s:>8.1} s CPU  {}", word(&stage.ending));
            match stage.ending {
                Ending::Missing(text) | Ending::Skipped(text) => println!(" ({text})"),
                Ending::Passed | Ending::Failed => println!(),
            }
        }
    }

    /// Returns whether every stage passed. A missing tool does not count as passed on a machine
    /// that sets `CI`.
    pub(crate) fn passed(&self, strict: bool) -> bool {
        self.stages.iter().all(|stage| match stage.ending {
            Ending::Passed | Ending::Skipped(_) => true,
            Ending::Failed => false,
            Ending::Missing(_) => !strict,
        })
    }
}

/// Returns the CPU time of all child processes that have ended, seconds, and of their children.
fn waited_cpu_s() -> f64 {
    /// Ticks per second (`USER_HZ`).
    const TICKS: f64 = 100.0;
    /// Fields of `proc_pid_stat(5)` between the name of the program and `cutime`.
    const BEFORE: usize = 13;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(BEFORE);
    fields.take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
}

fn word(ending: &Ending) -> &'static str {
    match ending {
        Ending::Passed => "passed",
        Ending::Failed => "FAILED",
        Ending::Missing(_) | Ending::Skipped(_) => "SKIPPED",
    }
}

/// A `cargo` command in the root of the workspace, the same cargo that runs this program.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(arguments);
    command
}

/// Returns the path where cargo puts `program` of a build with `profile`, `debug` or `release`.
pub(crate) fn built(root: &Path, profile: &str, program: &str) -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(target).join(profile).join(program)
}

/// Runs `command` with our own output.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<Ending> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    Ok(if status.success() { Ending::Passed } else { Ending::Failed })
}

/// Runs a check that is a script below `root`: its exit code 2 means that `requirement` is missing.
pub(crate) fn script(
    root: &Path,
    path: &str,
    arguments: &[&str],
    requirement: &'static str,
) -> anyhow::Result<Ending> {
    const MISSING: i32 = 2;
    let mut command = Command::new(root.join(path));
    command.args(arguments).current_dir(root);
    println!("$ {}", shown(&command));
    let status = command.status().with_context(|| path.to_owned())?;
    Ok(match status.code() {
        Some(MISSING) => Ending::Skipped(requirement),
        _ if status.success() => Ending::Passed,
        _ => Ending::Failed,
    })
}

/// Builds convoy for users and returns its path.
pub(crate) fn release(root: &Path) -> anyhow::Result<String> {
    let build = ["build", "--release", "--locked", "--package", "convoy"];
    ensure!(matches!(run(&mut cargo(root, &build))?, Ending::Passed), "convoy does not build");
    Ok(built(root, "release", "convoy").display().to_string())
}

/// Returns the standard output of `command`, which must succeed.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| shown(command))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {errors}", shown(command));
    Ok(String::from_utf8(output.stdout)?)
}

/// Prints the output of a command that ran next to other stages.
pub(crate) fn ended_with(output: Output) -> anyhow::Result<Ending> {
    std::io::stdout().write_all(&[output.stdout, output.stderr].concat())?;
    Ok(if output.status.success() { Ending::Passed } else { Ending::Failed })
}

/// Runs `command`, shows its standard output and error as one stream, and gives each line to `hold`
/// first: a line that `hold` takes (by returning true) is not shown.
pub(crate) fn run_filtered(
    command: &mut Command,
    mut hold: impl FnMut(&str) -> bool,
) -> anyhow::Result<Ending> {
    println!("$ {}", shown(command));
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    // The pipe ends when its last writer is gone, and `command` still holds two.
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes)? > 0 {
        let line = String::from_utf8_lossy(&bytes);
        if !hold(line.trim_end()) {
            print!("{line}");
            std::io::stdout().flush()?;
        }
        bytes.clear();
    }
    Ok(if child.wait()?.success() { Ending::Passed } else { Ending::Failed })
}

/// Returns the command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let mut parts = Vec::new();
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default().to_string_lossy();
        parts.push(format!("{}=\"{value}\"", name.to_string_lossy()));
    }
    let program = Path::new(command.get_program());
    parts.push(program.file_name().unwrap_or_default().to_string_lossy().into_owned());
    parts.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn exit_status_decides() {
        assert!(matches!(run(&mut shell("exit 0")).unwrap(), Ending::Passed));
        assert!(matches!(run(&mut shell("exit 7")).unwrap(), Ending::Failed));
        assert!(run(&mut Command::new("no-such-program-of-convoy")).is_err());
        let failed = shell("exit 7").output().unwrap();
        assert!(matches!(ended_with(failed).unwrap(), Ending::Failed));
    }

    #[test]
    fn a_script_that_lacks_something_is_skipped() {
        let place = std::env::temp_dir();
        let name = format!("convoy-script-{}.sh", std::process::id());
        let path = place.join(&name);
        std::fs::write(&path, "#!/bin/sh\nexit $1\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let [passed, failed, skipped] =
            ["0", "1", "2"].map(|code| script(&place, &name, &[code], "a tool").unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(passed, Ending::Passed));
        assert!(matches!(failed, Ending::Failed));
        assert!(matches!(skipped, Ending::Skipped("a tool")));
    }

    #[test]
    fn cpu_time_of_commands_is_counted() {
        let before = waited_cpu_s();
        run(&mut shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")).unwrap();
        assert!(waited_cpu_s() > before);
    }

    #[test]
    fn filter_sees_both_streams_in_order_and_the_status() {
        let mut lines = Vec::new();
        let ending = run_filtered(&mut shell("echo a; echo b >&2; echo c; exit 1"), |line| {
            lines.push(line.to_owned());
            true
        });
        assert!(matches!(ending.unwrap(), Ending::Failed));
        assert_eq!(lines, ["a", "b", "c"]);
    }

    #[test]
    fn a_missing_tool_fails_only_where_it_is_strict() {
        let mut pipeline = Pipeline::default();
        pipeline.stage("present", || Ok(Ending::Passed));
        pipeline.stage("absent", || Ok(Ending::Missing("install it")));
        assert!(pipeline.passed(false));
        assert!(!pipeline.passed(true));
        pipeline.stage("broken", || anyhow::bail!("it broke"));
        assert!(!pipeline.passed(false));
    }
}
