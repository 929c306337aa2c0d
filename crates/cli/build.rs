//! Embeds the commit hash in the binary as `CONVOY_COMMIT`, empty if the sources are modified or
//! there is no repository.

use std::process::Command;

fn main() {
    // A commit or a change of any source asks again.
    for path in ["../../.git/HEAD", "../../.git/refs/heads", "../../.git/index"] {
        if std::path::Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for path in ["..", "../../kernels", "../../machines", "../../mixes", "../../experiments"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rustc-env=CONVOY_COMMIT={}", commit().unwrap_or_default());
}

fn commit() -> Option<String> {
    fn git(arguments: &[&str]) -> Option<String> {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "../.."])?;
    if changed.is_empty() { git(&["rev-parse", "HEAD"]) } else { None }
}
