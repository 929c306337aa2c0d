//! `cargo xtask fuzz`: all readers for a time, or one input again.
//!
//! Each target runs in a separate process, because a stack overflow or an unbounded allocation ends
//! the process. The input is in a file before it is read, so that what ended the process is there
//! afterwards.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks")]

use anyhow::{Context as _, bail, ensure};
use convoy_fuzz::mutate::Mutator;
use convoy_fuzz::targets::{ALL, Target, find};
use convoy_fuzz::{inputs, root};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cargo xtask fuzz [--seconds N] [--seed N] [TARGET | FILE]";

/// Address space of a reader, bytes: inputs are below 64 KiB, and stacks of checked tasks, which
/// are address space only, are the most of it.
const MEMORY: u64 = 2 << 30;

/// What no input of that length may take. Only a reader that hangs reaches it.
const LIMIT: Duration = Duration::from_secs(20);

/// The exit code when nothing could be tried.
const UNREADY: i32 = 2;

/// The argument by which this program knows that it is to read.
const READ: &str = "--read";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [READ, target, seed, ms, current] => read(target, seed, ms, Path::new(current)),
        _ => supervise(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::from(UNREADY as u8)
        }
    }
}

/// Runs targets one after the other; true if none found anything.
fn supervise(arguments: &[&str]) -> anyhow::Result<bool> {
    let (mut seconds, mut seed, mut only) = (60, 1, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || rest.next().and_then(|n| n.parse::<u64>().ok()).context(USAGE);
        match *argument {
            "--seconds" => seconds = number()?,
            "--seed" => seed = number()?,
            flag if flag.starts_with('-') => bail!(USAGE),
            word => only = Some(word),
        }
    }
    if let Some(file) = only.filter(|word| Path::new(word).is_file()) {
        return again(Path::new(file));
    }
    let targets: Vec<&Target> =
        ALL.iter().filter(|target| only.is_none_or(|only| target.name == only)).collect();
    let known: Vec<&str> = ALL.iter().map(|target| target.name).collect();
    ensure!(!targets.is_empty(), "no such target or file; known: {}", known.join(", "));
    let ms = seconds * 1000 / targets.len() as u64;
    println!("seed {seed}, {} ms for each of {} targets", ms, targets.len());
    let mut sound = true;
    for target in targets {
        sound &= run(target, seed, ms)?;
    }
    Ok(sound)
}

/// Runs one target in a separate process.
fn run(target: &Target, seed: u64, ms: u64) -> anyhow::Result<bool> {
    let memory = Path::new("/dev/shm");
    let scratch = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let scratch = scratch.join(format!("convoy-fuzz-of-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let current = scratch.join("current");
    let mut command = Command::new(std::env::current_exe()?);
    command.args([READ, target.name, &seed.to_string(), &ms.to_string()]).arg(&current);
    let status = command.env("TMPDIR", &scratch).status()?;
    let input = std::fs::read(&current).unwrap_or_default();
    std::fs::remove_dir_all(&scratch)?;
    ensure!(status.code() != Some(UNREADY), "{}: no input was read", target.name);
    if status.success() {
        return Ok(true);
    }
    let kept = root().join("fuzz/crashes");
    std::fs::create_dir_all(&kept)?;
    let path = kept.join(format!("{}-{:016x}", target.name, digest(&input)));
    std::fs::write(&path, &input)?;
    println!("{}: {status}; the input is kept; again with:", target.name);
    println!("  cargo xtask fuzz {}", path.display());
    Ok(false)
}

/// Reads inputs for `ms` milliseconds.
fn read(target: &str, seed: &str, ms: &str, current: &Path) -> anyhow::Result<bool> {
    let target = find(target).context(USAGE)?;
    let (seed, ms): (u64, u64) = (seed.parse()?, ms.parse()?);
    confine()?;
    let mut mutator = Mutator::new(seed, inputs(target.corpus)?);
    let start = Instant::now();
    let mut count = 0_u64;
    while start.elapsed() < Duration::from_millis(ms) {
        let input = mutator.input();
        std::fs::write(current, &input)?;
        (target.fuzz)(&input);
        count += 1;
        READS.store(count, Ordering::Relaxed);
    }
    println!("{:<12} {count:>8} inputs", target.name);
    Ok(true)
}

/// One input once more, in this process.
fn again(file: &Path) -> anyhow::Result<bool> {
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let target = find(&folder).or_else(|| find(name.split('-').next().unwrap_or_default()));
    let target = target.context("call the file TARGET-anything")?;
    confine()?;
    (target.fuzz)(&std::fs::read(file)?);
    println!("{}: read", target.name);
    Ok(true)
}

/// Inputs read so far, for the watchdog.
static READS: AtomicU64 = AtomicU64::new(0);

/// Bounds memory, and ends the process when one input takes too long.
fn confine() -> anyhow::Result<()> {
    setrlimit(Resource::As, Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) })?;
    std::thread::spawn(|| {
        let mut before = None;
        loop {
            let reads = READS.load(Ordering::Relaxed);
            if before == Some(reads) {
                eprintln!("one input takes longer than {} s", LIMIT.as_secs());
                std::process::abort();
            }
            before = Some(reads);
            std::thread::sleep(LIMIT);
        }
    });
    Ok(())
}

/// FNV-1a: a name for an input.
fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
