//! Lists the shipped data files, so that a new one needs no line anywhere.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Name of the table, directory at the root of the repository, extension of its files.
const SHELVES: [(&str, &str, &str); 5] = [
    ("MACHINE_FILES", "machines", "toml"),
    ("KERNEL_FILES", "kernels", "toml"),
    ("MIX_FILES", "mixes", "workfile"),
    ("EXPERIMENT_FILES", "experiments", "toml"),
    ("WORKLOAD_FILES", "workloads", "toml"),
];

/// Tables in the directories of presets that are not presets.
const TABLES: [&str; 2] = ["kernels/costs", "machines/calibration"];

fn main() -> io::Result<()> {
    let missing = |name| io::Error::other(format!("cargo sets {name}"));
    let crates = env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| missing("CARGO_MANIFEST_DIR"))?;
    let output = env::var_os("OUT_DIR").ok_or_else(|| missing("OUT_DIR"))?;
    let root = Path::new(&crates).join("../..").canonicalize()?;
    let mut text = String::new();
    for (table, directory, extension) in SHELVES {
        println!("cargo:rerun-if-changed={}", root.join(directory).display());
        let mut files = files(&root.join(directory), extension)?;
        files.retain(|(name, _)| !TABLES.contains(&format!("{directory}/{name}").as_str()));
        files.sort_by(|a, b| by_version(&a.0, &b.0));
        let _infallible = writeln!(text, "static {table}: &[(&str, &str)] = &[");
        for (name, path) in files {
            let path = path.display().to_string();
            let _infallible = writeln!(text, "    ({name:?}, include_str!({path:?})),");
        }
        text.push_str("];\n");
    }
    fs::write(Path::new(&output).join("shipped.rs"), text)
}

/// The files of `directory` that end in `extension`: name without it, path.
fn files(directory: &Path, extension: &str) -> io::Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        if let Some(name) = name
            && path.extension().is_some_and(|other| other == extension)
        {
            files.push((name, path));
        }
    }
    Ok(files)
}

/// Numbers by value, and a release candidate before its release.
fn by_version(a: &str, b: &str) -> Ordering {
    parts(a).cmp(&parts(b))
}

/// A rank and a value for each run of digits and each other character; the end ranks between `-`
/// and the rest.
fn parts(name: &str) -> Vec<(u8, u64)> {
    let mut parts = Vec::new();
    let mut rest = name.chars().peekable();
    while let Some(next) = rest.next() {
        let Some(mut number) = next.to_digit(10).map(u64::from) else {
            let rank = match next {
                '-' => 0,
                '+' => 2,
                '.' => 3,
                _ => 5,
            };
            parts.push((rank, u64::from(u32::from(next))));
            continue;
        };
        while let Some(digit) = rest.peek().and_then(|next| next.to_digit(10)) {
            number = number.saturating_mul(10).saturating_add(u64::from(digit));
            rest.next();
        }
        parts.push((4, number));
    }
    parts.push((1, 0));
    parts
}
