//! `cargo xtask pictures`: the picture of README and the tutorial, made again from the example: the
//! report of its record, in headless Chromium.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::peers::output;
use crate::stage::{Ending, built, cargo, run as show};

/// Where the picture is, and its size in pixels.
const PICTURE: &str = "docs/report.png";
const SIZE: &str = "1100,800";
/// Largest file that is checked in.
const MOST_BYTES: u64 = 200_000;
/// Names under which Chromium is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Records the example with a release build or `program`, and draws its report.
pub(crate) fn run(root: &Path, program: Option<&str>) -> anyhow::Result<Ending> {
    let Some(browser) = BROWSERS.iter().find(|name| {
        Command::new(**name).arg("--version").output().is_ok_and(|out| out.status.success())
    }) else {
        return Ok(Ending::Missing("a browser: apt-get install chromium"));
    };
    let convoy = if let Some(path) = program {
        std::path::absolute(path)?
    } else {
        let build = ["build", "--release", "--locked", "--package", "convoy"];
        ensure!(matches!(show(&mut cargo(root, &build))?, Ending::Passed), "convoy: no build");
        built(root, "release", "convoy")
    };
    let place = root.join("target/pictures");
    std::fs::create_dir_all(&place)?;
    let source = root.join("examples/slow-program/orders.c");
    // The name of the source as a user has it, without the directory of this tree.
    std::fs::copy(source, place.join("orders.c"))?;
    let here = |name: &str, words: &[&str]| {
        let mut command = Command::new(name);
        command.args(words).current_dir(&place).env("CONVOY_STORE", "none");
        command
    };
    output(&mut here("cc", &["-O1", "-g", "-pthread", "orders.c", "-o", "orders"]))?;
    let convoy = convoy.to_str().context("the path of convoy is not text")?;
    output(&mut here(convoy, &["record", "--quiet", "-o", "before.json", "--", "./orders"]))?;
    output(&mut here(convoy, &["report", "before.json", "-o", "report.html"]))?;
    let picture = root.join(PICTURE);
    let shot = format!("--screenshot={}", picture.display());
    let page = format!("file://{}", place.join("report.html").display());
    let size = format!("--window-size={SIZE}");
    // Without its sandbox it also runs as root in a container.
    let flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"];
    output(&mut here(browser, &[&flags[..], &[&shot, &size, &page]].concat()))?;
    let bytes = std::fs::metadata(&picture)?.len();
    ensure!(bytes < MOST_BYTES, "{PICTURE} has {bytes} bytes, more than {MOST_BYTES}");
    Ok(Ending::Passed)
}
