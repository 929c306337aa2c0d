//! `cargo xtask fuzz`: all readers for a time, or one input again.
//!
//! Each target runs in a separate process, because a stack overflow or an unbounded allocation ends
//! the process. The input is in a file before it is read, so that what ended the process is there
//! afterwards.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks")]

use anyhow::{Context as _, bail, ensure};
use convoy_fuzz::mutate::Mutator;
use convoy_fuzz::targets::{ALL, Target, find};
use convoy_fuzz::{commands, inputs, root};
use convoy_record::layout::{FNV, fnv};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cargo xtask fuzz [--seconds N | --inputs N] [--seed N] [TARGET | FILE]";

/// Memory of a reader, bytes: inputs are below 64 KiB.
const MEMORY: u64 = 1 << 30;
/// Address space of a reader, bytes; stacks of checked tasks are the most of it.
const ADDRESSES: u64 = 2 << 30;
/// The target that runs commands.
const COMMANDS: &str = "commands";
/// Targets with virtual machines, which reserve more addresses and use few of them.
const REPLAYS: [&str; 2] = ["predict", COMMANDS];
/// Bytes of a page.
const PAGE: u64 = 4096;
/// CPU time that no input of that length may take on each CPU. Only a reader that hangs reaches it.
const LIMIT: Duration = Duration::from_secs(10);
/// And time, if it waits for something.
const WAIT: Duration = Duration::from_secs(120);
/// Time between two looks at the reader.
const LOOK: Duration = Duration::from_millis(100);

/// The exit code when nothing could be tried.
const UNREADY: i32 = 2;

/// The argument by which this program knows that it is to read.
const READ: &str = "--read";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [READ, target, seed, ms, most, current] => {
            read(target, [seed, ms, most], Path::new(current))
        }
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
    let (mut seconds, mut most, mut seed, mut only) = (60, u64::MAX, 1, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || rest.next().and_then(|n| n.parse::<u64>().ok()).context(USAGE);
        match *argument {
            "--seconds" => seconds = number()?,
            // A number of each target, without a limit on the time.
            "--inputs" => (seconds, most) = (u64::from(u32::MAX), number()?),
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
    match most {
        u64::MAX => println!("seed {seed}, {ms} ms for each of {} targets", targets.len()),
        _ => println!("seed {seed}, {most} inputs for each of {} targets", targets.len()),
    }
    let mut sound = true;
    for target in targets {
        sound &= run(target, [seed, ms, most])?;
    }
    Ok(sound)
}

/// Runs one target in a separate process.
fn run(target: &Target, numbers: [u64; 3]) -> anyhow::Result<bool> {
    let memory = Path::new("/dev/shm");
    let scratch = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let scratch = scratch.join(format!("convoy-fuzz-of-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let current = scratch.join("current");
    let mut command = Command::new(std::env::current_exe()?);
    command.args([READ, target.name]).args(numbers.map(|number| number.to_string())).arg(&current);
    let status = command.env("TMPDIR", &scratch).status()?;
    let input = std::fs::read(&current).unwrap_or_default();
    std::fs::remove_dir_all(&scratch)?;
    ensure!(status.code() != Some(UNREADY), "{}: no input was read", target.name);
    if status.success() {
        return Ok(true);
    }
    let kept = root().join("fuzz/crashes");
    std::fs::create_dir_all(&kept)?;
    let path = kept.join(format!("{}-{:016x}", target.name, fnv(FNV, &input)));
    std::fs::write(&path, &input)?;
    println!("{}: {status}; the input is kept; again with:", target.name);
    println!("  cargo xtask fuzz {}", path.display());
    Ok(false)
}

/// Reads inputs of a seed for a time in milliseconds, or a number of them.
fn read(target: &str, numbers: [&str; 3], current: &Path) -> anyhow::Result<bool> {
    let target = find(target).context(USAGE)?;
    let [seed, ms, most] = numbers.map(str::parse::<u64>);
    let (seed, limit, most) = (seed?, Duration::from_millis(ms?), most?);
    confine(target)?;
    let mut mutator = Mutator::new(seed, inputs(target.corpus)?);
    let (start, mut longest, mut count) = (Instant::now(), Duration::ZERO, 0_u64);
    while start.elapsed() < limit && count < most {
        let input = mutator.input();
        std::fs::write(current, &input)?;
        let begin = cpu_time();
        (target.fuzz)(&input);
        longest = longest.max(cpu_time().saturating_sub(begin));
        count += 1;
        READS.store(count, Ordering::Relaxed);
    }
    println!(
        "{:<12} {count:>8} inputs, the longest {:.2} s of CPU time, {} MiB at most",
        target.name,
        longest.as_secs_f64(),
        most_resident() >> 20
    );
    if target.name == COMMANDS {
        for (command, count) in commands::done() {
            println!("{count:>21} results of {command}");
        }
    }
    Ok(true)
}

/// One input once more, in this process.
fn again(file: &Path) -> anyhow::Result<bool> {
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let target = find(&folder).or_else(|| find(name.split('-').next().unwrap_or_default()));
    let target = target.context("call the file TARGET-anything")?;
    confine(target)?;
    (target.fuzz)(&std::fs::read(file)?);
    println!("{}: read", target.name);
    Ok(true)
}

/// Inputs read so far, for the watchdog.
static READS: AtomicU64 = AtomicU64::new(0);

/// Bounds memory, and ends the process when one input takes too long.
fn confine(target: &Target) -> anyhow::Result<()> {
    if !REPLAYS.contains(&target.name) {
        setrlimit(Resource::As, Rlimit { current: Some(ADDRESSES), maximum: Some(ADDRESSES) })?;
    }
    if target.name == COMMANDS {
        // A command reports a panic of another thread as a failure, which would be no finding.
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            print(panic);
            std::process::abort();
        }));
    }
    let cpus = std::thread::available_parallelism()?.get() as u32;
    std::thread::spawn(move || {
        let (mut before, mut begin, mut cpu) = (0, Instant::now(), cpu_time());
        loop {
            std::thread::sleep(LOOK);
            let reads = READS.load(Ordering::Relaxed);
            if reads != before {
                (before, begin, cpu) = (reads, Instant::now(), cpu_time());
            }
            if cpu_time().saturating_sub(cpu) > LIMIT * cpus || begin.elapsed() > WAIT {
                eprintln!("one input takes longer than {} s", LIMIT.as_secs());
                std::process::abort();
            }
            if resident() > MEMORY {
                eprintln!("one input takes more than {} MiB", MEMORY >> 20);
                std::process::abort();
            }
        }
    });
    Ok(())
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Most bytes that were in memory.
fn most_resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// Bytes that are in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE
}
