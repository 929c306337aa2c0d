//! The bisection of 2008 again, on kernel presets: `examples/bisect-2008`.

use crate::{DONE, FINDING, ends, json};
use convoy_kernel::KernelPreset;
use std::path::{Path, PathBuf};
use std::process::Command;

fn script(name: &str, directory: &Path, more: &[&str]) -> Command {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bisect-2008");
    let mut command = Command::new("sh");
    command.arg(examples.join(name)).arg(directory).args(more);
    let convoy = Path::new(env!("CARGO_BIN_EXE_convoy")).parent().expect("a directory");
    let path = std::env::var("PATH").expect("a path");
    command.env("PATH", format!("{}:{path}", convoy.display()));
    command.env("CONVOY_STORE", directory.with_extension("store"));
    command.env("XDG_CACHE_HOME", directory.with_extension("cache"));
    command
}

fn directory(test: &str) -> PathBuf {
    let name = format!("convoy-bisect-{test}-{}", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _may_not_exist = std::fs::remove_dir_all(&path);
    path
}

fn git(directory: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(args).current_dir(directory);
    String::from_utf8(ends(command, DONE).stdout).expect("UTF-8")
}

/// The kernel of the commit that is checked out, with the name of the preset that it should be.
fn kernel(directory: &Path, name: &str) -> KernelPreset {
    let path = directory.join("kernel.toml");
    let loaded = convoy_catalogue::load(path.to_str().expect("UTF-8"), &[]).expect("a preset");
    KernelPreset { name: name.to_owned(), ..loaded.value }
}

#[test]
fn the_history_leads_from_one_preset_to_the_other() {
    let place = directory("history");
    ends(script("history.sh", &place, &[]), DONE);
    for (commit, name) in [("main~7", "2.6.25"), ("main", "2.6.26-rc1")] {
        git(&place, &["checkout", "--quiet", commit]);
        let preset = KernelPreset::named(name).expect("a shipped preset");
        assert_eq!(kernel(&place, name), preset, "{commit}");
    }
    std::fs::remove_dir_all(place).expect("it goes away");
}

#[test]
fn the_commit_of_the_semaphore_is_found() {
    let place = directory("kernel");
    let more = ["20", "--seed", "1", "--format", "json", "--quiet"];
    let answer = json(script("find.sh", &place, &more), FINDING);
    let culprit = git(&place, &["rev-parse", "main~3"]);
    assert_eq!(answer["first_bad"], culprit.trim(), "{answer}");
    assert_eq!(
        git(&place, &["log", "-1", "--format=%s", "main~3"]).trim(),
        "Generic semaphore implementation"
    );
    assert!(answer["effect_percent"]["mean"].as_f64() < Some(-15.0), "{answer}");
    std::fs::remove_dir_all(place).expect("it goes away");
}
