//! Workloads compared with the programs that they imitate: calls that belong to a file, a directory
//! or a block, counted by the kernel under `strace` and by the counting kernel.
//!
//! What differs by the age of the programs is not compared: Today's GNU find takes the kind of a
//! file from its directory, the version of 2007 called `stat` on each, and today's grep reads more
//! per call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_catalogue::{Sheet, WORKLOADS};
use convoy_workload::api::Kernel as _;
use convoy_workload::counting::Counting;
use convoy_workload::workload::{Act, Place, Start, Workload};

#[path = "../../host/tests/common/skip.rs"]
mod common;
use common::skip;

/// Whether every program answers to `--version`.
fn installed(programs: &[&str]) -> bool {
    programs.iter().all(|program| {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    })
}

/// An empty directory for one test.
fn directory(name: &str) -> PathBuf {
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if place.exists() {
        std::fs::remove_dir_all(&place).expect("what was there before goes");
    }
    std::fs::create_dir_all(&place).expect("a directory");
    place
}

/// The calls of a program.
#[derive(Default)]
struct Traced {
    /// Successful calls by name.
    calls: BTreeMap<String, u64>,
    /// Reads and closes of files in its directory, and lookups of names there.
    own: BTreeMap<String, u64>,
}

impl Traced {
    /// Successful calls with one of these names.
    fn sum(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.calls.get(*name)).sum()
    }

    fn own(&self, name: &str) -> u64 {
        self.own.get(name).copied().unwrap_or(0)
    }
}

/// Whether the call `name` with these arguments is one on an open file below `place`, or, for a
/// look, on a name there.
fn is_own(name: &str, arguments: &str, place: &str) -> bool {
    let descriptor = arguments.trim_start_matches(|c: char| c.is_ascii_digit());
    let below = |text: &str| text.strip_prefix('<').is_some_and(|path| path.starts_with(place));
    if name != "newfstatat" {
        return below(descriptor);
    }
    let directory = descriptor.strip_prefix("AT_FDCWD").unwrap_or(descriptor);
    let path = directory.split_once(", \"").map_or("", |(_, path)| path);
    below(directory) && !path.starts_with(['"', '/']) || path.starts_with(place)
}

/// Returns the calls of a shell line in `place`, by `strace`.
fn traced(place: &Path, line: &str) -> Traced {
    let log = place.join("log");
    let status = Command::new("strace")
        .args(["-f", "-y", "-qq", "-e", "signal=none", "-o"])
        .arg(&log)
        .args(["sh", "-c", line])
        .current_dir(place)
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", place)
        // Where the loader would look first, in vain.
        .env_remove("LD_LIBRARY_PATH")
        .stderr(std::process::Stdio::null())
        .status();
    status.expect("strace starts");
    let mut found = Traced::default();
    let below = place.canonicalize().expect("a place").display().to_string();
    for line in std::fs::read_to_string(log).expect("a log").lines() {
        let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        // A call that another process came into ends on a line of its own, and counts there; its
        // first half has the arguments.
        let resumed = line.strip_prefix("<... ").and_then(|line| line.split_once(" resumed>"));
        let Some((name, rest)) = resumed.or_else(|| line.split_once('(')) else { continue };
        if rest.contains(" = -1 ") {
            continue;
        }
        if resumed.is_none() && is_own(name, rest, &below) {
            *found.own.entry(name.to_owned()).or_default() += 1;
        }
        if !rest.ends_with("<unfinished ...>") {
            *found.calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    found
}

/// Minor page faults of the programs that a shell line starts.
fn faults(place: &Path, line: &str) -> u64 {
    let line = format!("{line} >/dev/null 2>&1\nread stat </proc/$$/stat; echo \"$stat\"");
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(place)
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", place)
        .env_remove("LD_LIBRARY_PATH")
        .output();
    let text = String::from_utf8(output.expect("sh starts").stdout).expect("numbers");
    // After the name: state, parent, group, session, terminal, its group, flags, own faults.
    let fields = text.rsplit_once(") ").expect("a line of proc").1;
    fields.split(' ').nth(8).and_then(|field| field.parse().ok()).expect("faults of children")
}

/// Returns a program with as many page faults at its start as `line`.
fn start(place: &Path, line: &str) -> Start {
    let pages = faults(place, line) as u32;
    Start { file_pages: pages / 2, memory_pages: pages.div_ceil(2) }
}

/// What `workload` calls, and the pages that it touches first.
fn shape_and_pages(workload: &Workload) -> (BTreeMap<&'static str, u64>, u64) {
    let mut kernel = Counting::new();
    kernel.mkdir("/w").expect("a directory");
    let place = Place { directory: "/w".to_owned(), volumes: vec!["/w".to_owned()] };
    workload.prepare(&mut kernel, &place).expect("prepared");
    kernel.reset();
    workload.run(&mut kernel, &place, 1).expect("runs");
    (kernel.calls().clone(), kernel.pages())
}

/// What `workload` calls.
fn shape(workload: &Workload) -> BTreeMap<&'static str, u64> {
    shape_and_pages(workload).0
}

fn shipped(name: &str) -> Workload {
    Sheet::open(&WORKLOADS, name, None).expect("shipped").read(&[]).expect("valid").value
}

/// What starts a process.
const FORKS: [&str; 4] = ["fork", "vfork", "clone", "clone3"];

/// `ours` lies within 15 % of `theirs`.
fn near(what: &str, ours: u64, theirs: u64) {
    let off = ours as f64 / theirs as f64 - 1.0;
    assert!(off.abs() <= 0.15, "{what}: {ours}, and {theirs} of the program");
}

#[test]
fn a_search_opens_and_lists_as_find_and_grep_do() {
    if !installed(&["strace", "find", "xargs", "grep"]) {
        return skip("the shape of find: install strace, findutils and grep", true);
    }
    // Of a large tree less a small one: what starts a program is no part of it.
    let sides = [(2, 40), (12, 400)].map(|(directories, files)| {
        let place = directory("shape-find");
        for at in 0..directories {
            std::fs::create_dir_all(place.join(format!("t/d{at}"))).expect("a directory");
            for file in 0..files / directories {
                let path = place.join(format!("t/d{at}/f{file}"));
                std::fs::write(path, [b'x'; 7000]).expect("a file");
            }
        }
        let files = files / directories * directories;
        // With a size asked for, find looks at each file, as that of 2007 always did.
        let theirs = traced(&place, "find t -type f -size +0 | xargs grep -e nothing");
        let mut workload = shipped("find");
        let find = workload.find.as_mut().expect("a search");
        (find.instances, find.loops_per_file) = (1, 0);
        (find.files, find.directories) = ([files; 2], [directories; 2]);
        find.bytes = [7000 * u64::from(files); 2];
        (theirs, shape(&workload))
    });
    let [(small, ours_small), (large, ours_large)] = sides;
    for (ours, theirs) in [("open", "openat"), ("getdents", "getdents64"), ("close", "close")] {
        let what = format!("{theirs} of find and grep");
        let real = large.sum(&[theirs]) - small.sum(&[theirs]);
        near(&what, ours_large[ours] - ours_small[ours], real);
    }
    for (ours, theirs) in [("read", "read"), ("stat", "newfstatat")] {
        let what = format!("{theirs} of find and grep");
        near(&what, ours_large[ours] - ours_small[ours], large.own(theirs) - small.own(theirs));
    }
}

#[test]
fn dd_writes_block_by_block() {
    if !installed(&["strace", "dd"]) {
        return skip("the shape of dd: install strace and coreutils", true);
    }
    let place = directory("shape-dd");
    let theirs = traced(&place, "dd if=/dev/zero of=foo bs=16k count=2048; rm foo");
    let mut workload = shipped("dd");
    workload.script.as_mut().expect("a script").loops_per_unit = 0;
    let ours = shape(&workload);
    near("write of dd", ours["write"], theirs.sum(&["write"]));
    near("unlink of rm", ours["unlink"], theirs.sum(&["unlinkat"]));
    near("fork of the shell", ours["fork"] - 1, theirs.sum(&FORKS));
}

#[test]
fn a_build_starts_as_many_processes_as_make_and_the_compiler() {
    if !installed(&["strace", "make", "cc"]) {
        return skip("the shape of pmake: install strace, make and a C compiler", true);
    }
    let sides = [2, 10].map(|sources| {
        let place = directory("shape-pmake");
        let names: Vec<String> = (0..sources).map(|source| format!("c{source}.o")).collect();
        for source in 0..sources {
            let text = format!(
                "#include \"h0.h\"\n#include \"h1.h\"\nint f{source}(int a) {{ return a; }}\n"
            );
            std::fs::write(place.join(format!("c{source}.c")), text).expect("a source");
        }
        for header in 0..2 {
            let text = format!("extern int g{header}(int);\n");
            std::fs::write(place.join(format!("h{header}.h")), text).expect("a header");
        }
        let rules = format!("all: {}\n", names.join(" "));
        std::fs::write(place.join("Makefile"), rules).expect("a makefile");
        let theirs = traced(&place, "make -s -j 2 CC=cc CFLAGS=-O1");
        let mut workload = shipped("pmake");
        let pmake = workload.pmake.as_mut().expect("a build");
        (pmake.lines, pmake.loops_per_line, pmake.headers) = (vec![1; sources], 0, 2);
        (theirs, shape(&workload))
    });
    let [(small, ours_small), (large, ours_large)] = sides;
    let removed = ["unlink", "unlinkat"];
    for (ours, theirs) in [("fork", &FORKS[..]), ("execve", &["execve"]), ("unlink", &removed)] {
        let real = large.sum(theirs) - small.sum(theirs);
        near(&format!("{ours} of make and cc"), ours_large[ours] - ours_small[ours], real);
    }
    // The assembler also reads what it has written, in pieces: those are no part of the shape.
    let reads = large.own("read") - small.own("read");
    let more = ours_large["read"] - ours_small["read"];
    assert!(more <= reads, "{more} reads of files, and {reads} of the programs");
    // make looks at a source, the compiler at each file that it has opened.
    assert_eq!(ours_large["stat"] - ours_small["stat"], 2 * 8, "a source and its object");
}

/// A script of which only the steps that `keep` wants are done, each `times` times.
fn script(name: &str, times: u32) -> Workload {
    let mut workload = shipped(name);
    let script = workload.script.as_mut().expect("a script");
    (script.per_cpu, script.fixed, script.loops_per_unit) = (0, 1, 0);
    script.sources = times;
    script.steps.iter_mut().for_each(|step| step.times = times);
    workload
}

#[test]
fn mab_makes_copies_looks_and_reads_as_the_programs_do() {
    if !installed(&["strace", "mkdir", "cp", "ls", "cat"]) {
        return skip("the shape of mab: install strace and coreutils", true);
    }
    let sides = [5, 25].map(|times| {
        let place = directory("shape-mab");
        std::fs::create_dir(place.join("src")).expect("a directory");
        for file in 0..times {
            std::fs::write(place.join(format!("src/f{file}")), [b'x'; 2900]).expect("a file");
        }
        let each =
            |line: &str| format!("i=0; while [ $i -lt {times} ]; do {line}; i=$((i+1)); done");
        let phases = ["mkdir d$i", "cp src/f$i c$i", "ls -l c$i >/dev/null", "cat c$i >/dev/null"];
        let theirs = traced(&place, &phases.map(each).join("; "));
        (theirs, shape(&script("mab", times)))
    });
    let [(small, ours_small), (large, ours_large)] = sides;
    let more = |ours: &str| ours_large[ours] - ours_small[ours];
    for (ours, theirs) in [("fork", &FORKS[..]), ("execve", &["execve"]), ("mkdir", &["mkdir"])] {
        near(&format!("{ours} of mab"), more(ours), large.sum(theirs) - small.sum(theirs));
    }
    // Looks at the files: that of ls is statx in some versions; cp looks before it copies.
    let looks = |side: &Traced| side.own("newfstatat") + side.own("statx");
    assert!(more("stat") <= looks(&large) - looks(&small), "ls looks at each file");
    // cp reads and writes once or lets the kernel copy; cat reads to the end.
    near("reads of cat", more("read") / 2, 2 * 20);
}

/// A configure script of `tests` tests, with the shell lines of `workloads/configure.toml`.
fn configure(tests: u32) -> String {
    let test = "echo $i | sed s/1/2/ >out; expr $i : 1 >out; grep -c 1 out >/dev/null; \
                basename a/b >out; dirname a/b >out; cat out >/dev/null; \
                echo 'int main(void) { return 0; }' >conftest.c; cc -o conftest conftest.c; \
                ./conftest; rm -f conftest.c conftest";
    format!("i=0; while [ $i -lt {tests} ]; do {test}; i=$((i+1)); done")
}

#[test]
fn a_configure_script_starts_as_many_programs_as_a_real_one() {
    if !installed(&["strace", "sed", "grep", "cc"]) {
        return skip("the shape of configure: install strace, sed and a C compiler", true);
    }
    let sides = [1, 5].map(|tests| {
        let place = directory("shape-configure");
        let theirs = traced(&place, &configure(tests));
        let mut workload = shipped("configure");
        let script = workload.script.as_mut().expect("a script");
        (script.per_cpu, script.fixed) = (0, 1);
        (script.rounds, script.loops_per_unit) = (tests, 0);
        (theirs, shape(&workload))
    });
    let [(small, ours_small), (large, ours_large)] = sides;
    // The shell forks once more for the left side of a pipe, which it does itself.
    for (ours, theirs) in [("fork", &FORKS[..]), ("execve", &["execve"])] {
        let real = large.sum(theirs) - small.sum(theirs);
        near(&format!("{ours} of configure"), ours_large[ours] - ours_small[ours], real);
    }
}

#[test]
fn objdump_writes_its_text_page_by_page() {
    if !installed(&["strace", "objdump", "grep", "cc"]) {
        return skip("the shape of objdump: install strace, binutils and grep", true);
    }
    let place = directory("shape-objdump");
    let function = |at| format!("int f{at}(int a) {{ return a * {at} + (a << 3) - a % 7; }}\n");
    let functions: Vec<String> = (0..400).map(function).collect();
    let functions = functions.concat();
    std::fs::write(place.join("c.c"), functions).expect("a source");
    let text = traced(&place, "cc -c c.c && objdump -d c.o >text");
    assert!(text.sum(&["execve"]) > 2, "the compiler ran");
    let bytes = std::fs::metadata(place.join("text")).expect("the text").len();
    let theirs = traced(&place, "objdump -d c.o | grep mov >out");
    let mut workload = shipped("objdump");
    let pipeline = workload.pipeline.as_mut().expect("a pipeline");
    (pipeline.text_bytes, pipeline.share, pipeline.loops_per_page) = (bytes, 1, 0);
    pipeline.file_bytes = std::fs::metadata(place.join("c.o")).expect("the object").len();
    let ours = shape(&workload);
    near("fork of the shell", ours["fork"], theirs.sum(&FORKS));
    near("execve of the shell", ours["execve"], theirs.sum(&["execve"]) - 1);
    // Not to /dev/null: grep of today knows it, and ends at the first line. What it writes itself,
    // a block at a time, is no part of the shape.
    let found = std::fs::read_to_string(place.join("text")).expect("the text");
    let matching: usize = found.lines().filter(|line| line.contains("mov")).map(str::len).sum();
    let of_grep = (matching / 4096) as u64;
    near("write of objdump", ours["write"], theirs.sum(&["write"]) - of_grep);
}

#[test]
fn programs_touch_the_pages_that_their_starts_do() {
    if !installed(&["strace", "find", "grep", "dd", "cc", "sed"]) {
        return skip("the pages of programs: install findutils, grep, coreutils, sed and cc", true);
    }
    let place = directory("shape-pages");
    for at in 0..12 {
        std::fs::create_dir_all(place.join(format!("t/d{at}"))).expect("a directory");
        for file in 0..33 {
            std::fs::write(place.join(format!("t/d{at}/f{file}")), [b'x'; 7000]).expect("a file");
        }
    }
    let mut workload = shipped("find");
    let find = workload.find.as_mut().expect("a search");
    (find.instances, find.loops_per_file) = (1, 0);
    (find.files, find.directories, find.bytes) = ([396; 2], [12; 2], [396 * 7000; 2]);
    find.walk = start(&place, "find /dev/null");
    // What the child of a fork copies until it becomes grep is in it.
    let forked = start(&place, "find /dev/null -exec grep x {} \\;");
    find.search = Start { memory_pages: forked.memory_pages - find.walk.memory_pages, ..forked };
    find.search.file_pages -= find.walk.file_pages;
    let theirs = faults(&place, "find t -type f -exec grep -e nothing {} +");
    near("pages of find and grep", shape_and_pages(&workload).1, theirs);

    let mut workload = shipped("dd");
    let script = workload.script.as_mut().expect("a script");
    script.loops_per_unit = 0;
    script.shell = Start { file_pages: 0, memory_pages: 0 };
    script.steps[0].program = Some(start(&place, "dd if=/dev/zero of=foo bs=16k count=0"));
    script.steps[1].program = Some(start(&place, "rm -f nothing"));
    let theirs = faults(&place, "{ dd if=/dev/zero of=foo bs=16k count=2048; rm foo; }");
    near("pages of dd and rm", shape_and_pages(&workload).1, theirs);

    let short = start(&place, "basename a/b");
    let compile = faults(
        &place,
        "{ echo 'int main(void) { return 0; }' >conftest.c; cc -o conftest conftest.c; }",
    );
    let mut workload = shipped("configure");
    let script = workload.script.as_mut().expect("a script");
    (script.per_cpu, script.fixed, script.rounds, script.loops_per_unit) = (0, 1, 4, 0);
    script.shell = Start { file_pages: 0, memory_pages: 0 };
    // The five programs of the compiler together, then the short ones.
    let mut left = compile as u32;
    for step in &mut script.steps {
        let heavy = step.program.is_some_and(|program| program.file_pages > 40);
        let Some(program) = &mut step.program else { continue };
        *program = if heavy && left > 0 {
            Start { file_pages: 0, memory_pages: std::mem::take(&mut left) }
        } else if heavy {
            Start { file_pages: 0, memory_pages: 0 }
        } else {
            short
        };
        step.acts.retain(|act| !matches!(act, Act::Heap(_)));
    }
    let theirs = faults(&place, &format!("{{ {}; }}", configure(4)));
    near("pages of configure", shape_and_pages(&workload).1, theirs);
}
