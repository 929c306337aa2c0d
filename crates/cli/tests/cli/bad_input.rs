//! What cannot be done ends with a documented code and one line that names the cure.

use crate::{code, convoy, directory, ends, finish, refused, run, stderr, stdout};
use std::fs::File;
use std::os::unix::fs::FileTypeExt as _;

const USAGE: i32 = 2;
const ENVIRONMENT: i32 = 3;
/// A command with a result that takes no time.
const QUICK: [&str; 4] = ["check", "opportunistic", "--budget", "10"];

/// The same with its result in `file`.
fn to(file: &str) -> Vec<&str> {
    [QUICK.as_slice(), &["--output", file]].concat()
}

#[test]
fn unknown_names_list_the_known_ones() {
    refused(&["run", "--mix", "sharde"], USAGE, &["\"sharde\"", "shared"]);
    refused(&["sim", "--kernel", "2.6.27"], USAGE, &["\"2.6.27\"", "2.6.26-rc1+bkl-spinlock"]);
    let machine = ["sim", "--kernel", "2.6.25", "--machine", "pdp-11"];
    refused(&machine, USAGE, &["\"pdp-11\"", "quad-2008-two-dies"]);
    refused(&["reproduce", "mutex-2008"], USAGE, &["\"mutex-2008\"", "semaphore-2008"]);
    refused(&["reproduce", "--kernel", "2.6.27"], USAGE, &["\"2.6.27\"", "2.6.25"]);
    refused(&["reproduce", "--machine", "pdp-11"], USAGE, &["quad-2008-shared-llc"]);
    refused(&["check", "mutexes"], USAGE, &["`mutexes`", "check --list"]);
    refused(&["check", "semaphore", "best"], USAGE, &["`best`", "check --list"]);
}

#[test]
fn a_file_that_does_not_exist_is_no_experiment() {
    for command in ["explain", "report"] {
        let missing = [command, "missing.json"];
        refused(&missing, USAGE, &["no file or experiment \"missing.json\"", "runs list"]);
        refused(&[command, "zone-lw"], USAGE, &["did you mean zone-law?"]);
    }
}

#[test]
fn programs_that_do_not_start_have_the_codes_of_a_shell() {
    let directory = directory("starts");
    let text = directory.write("text", "no program");
    let with = ["with", "--mutex", "fair", "--"];
    for command in [&["record", "--"][..], &["top", "--once", "--"], &with] {
        let missing = [command, &["./no-such-program"]].concat();
        refused(&missing, 127, &["cannot start `./no-such-program`", "is the name right?"]);
        let denied = [command, &[text]].concat();
        refused(&denied, 126, &["cannot start", "is it a program, and executable?"]);
    }
}

#[test]
fn a_huge_argument_is_echoed_in_part() {
    let (digits, name) = ("9".repeat(100_000), "e".repeat(100_000));
    for args in [&["run", "--users", &digits][..], &["explain", &name], &["predict", &name]] {
        refused(args, USAGE, &[&args[args.len() - 1][..3]]);
        assert!(stderr(&run(args)).len() < 2000, "{}", args[0]);
    }
}

#[test]
fn lists_of_users_name_the_entry() {
    for (list, word) in [
        ("0", "0 is too small"),
        ("", "nothing there"),
        ("x", "\"x\" is not a number"),
        ("5-1", "goes down"),
        ("1,2,99999999999999999999", "entry 3"),
        ("100001", "too large"),
    ] {
        refused(&["run", "--users", list], USAGE, &[word, "such as 1,2,10"]);
        refused(&["sim", "--kernel", "2.6.26-rc1", "--users", list], USAGE, &[word]);
    }
}

#[test]
fn numbers_out_of_range_name_the_range() {
    let cpus = |n| ["sim", "--kernel", "2.6.25", "--cpus", n];
    refused(&cpus("0"), USAGE, &["--cpus 0: topology.cpus: 0 is", "1 to 1024"]);
    refused(&cpus("2000"), USAGE, &["topology.cpus: 2000 is", "1 to 1024"]);
    refused(&["reproduce", "--scale", "5000"], USAGE, &["5000", "1 to 2000"]);
    refused(&["reproduce", "--seed", "18446744073709551615"], USAGE, &["--seed", "smaller"]);
    refused(&["reproduce", "--seeds", "0"], USAGE, &["1..=1000"]);
    refused(&["check", "semaphore", "--budget", "0"], USAGE, &["0 is not in 1.."]);
    refused(&["run", "--start-delay", "1e9"], USAGE, &["0 to 3600"]);
    let timeline = ["sim", "--kernel", "2.6.25", "--timeline", "0"];
    refused(&timeline, USAGE, &["0.001 to 3600"]);
}

#[test]
fn errors_of_the_parser_are_one_line_too() {
    refused(
        &["run", "--userz", "1"],
        USAGE,
        &["option --userz; did you mean --users?; see `convoy lab run --help`"],
    );
    refused(&["check"], USAGE, &["<LOCK", "is missing; see `convoy lab check --help`"]);
    refused(
        &["reproduce", "--full", "--scale", "2"],
        USAGE,
        &["--full", "does not go with --scale"],
    );
    refused(&["sim", "--users", "2"], USAGE, &["--kernel"]);
    refused(&["run", "--format", "xml"], USAGE, &["table", "json", "csv"]);
    refused(&["runz"], USAGE, &["unknown command runz; did you mean runs or run?"]);
    refused(&["predict", "1", "--cpus", "2-x"], USAGE, &["--cpus 2-x: list, entry 1: \"x\" is"]);
    refused(&["predict", "1", "--split", "x"], USAGE, &["--split x: not a whole number"]);
    refused(&["run", "--users"], USAGE, &["--users needs a value; see `convoy lab run --help`"]);
    refused(&["fix", "1", "--split", "2", "--split", "3"], USAGE, &["--split is given twice"]);
    for command in ["record", "with", "top"] {
        let args = [command, "--kernal", "off", "--", "true"];
        let known = match command {
            "with" => "see `convoy with --help`",
            _ => "did you mean --kernel?",
        };
        refused(&args, USAGE, &["unknown option --kernal", known]);
    }
    let help = ends(&["--help"], 0);
    assert!(stdout(&help).contains("Exit codes"));
    ends(&["--version"], 0);
    ends(&[], USAGE);
}

#[test]
fn a_flag_of_another_target_is_refused_and_names_the_command() {
    let journal = ["--fs", "journal", "--timeline", "1", "--users", "1", "--job", "add_int"];
    let virtual_one = [&["run", "--machine", "quad-2008-two-dies"], journal.as_slice()].concat();
    refused(&virtual_one, USAGE, &["option --machine", "`convoy lab sim`"]);
    refused(&["run", "--cpus", "2"], USAGE, &["option --cpus", "`convoy lab sim`"]);
    refused(&["sim", "--kernel", "2.6.25", "--pin"], USAGE, &["option --pin", "`convoy lab run`"]);
    refused(
        &["sim", "--kernel", "2.6.25", "--peak"],
        USAGE,
        &["option --peak", "`convoy lab run`"],
    );
}

#[test]
fn commands_of_a_workfile_run_here_only_and_end_with_nought() {
    let place = directory("commands");
    let path = place.write("own.mix", "1 mine = exit 7\n");
    let sim = ["sim", "--kernel", "2.6.25", "--users", "1", "--mix", path];
    refused(&sim, USAGE, &["mine cannot run on a virtual kernel: commands run on a real machine"]);
    let load = ["run", "--users", "1", "--jobs", "1", "--no-predict", "--mix", path, "--quiet"];
    let output = ends(&load, ENVIRONMENT);
    assert!(stderr(&output).contains("mine: its command ended with exit code 7"), "{output:?}");
    place.write("own.mix", "1 add_int\n1 mine 5 = true\n");
    refused(&load, USAGE, &["own.mix:2: \"5\" is not a time; write seconds such as 30s"]);
}

#[test]
fn schedules_that_cannot_be_replayed() {
    let replay = |schedule| ["check", "semaphore", "--replay", schedule];
    refused(&replay("garbage"), USAGE, &["cv1:<scenario>:<runs>", "copy one"]);
    refused(&replay("cv0:handoff/binary:0"), USAGE, &["cv1:"]);
    refused(&replay("cv1:handoff/nothing:0"), USAGE, &["handoff/nothing"]);
    refused(&replay("cv1:handoff/binary:x"), USAGE, &["`x` is no run"]);
    refused(&replay("cv1:handoff/binary:7"), USAGE, &["run"]);
}

#[test]
fn files_that_cannot_be_read_or_understood() {
    let directory = directory("files");
    let file = |name: &str, text: &str| directory.write(name, text);
    refused(
        &["run", "--mix", directory.path("none.mix")],
        USAGE,
        &["none.mix", "or the path of a workfile"],
    );
    refused(&["run", "--mix", directory.path("")], USAGE, &["this is a directory"]);
    let mix = file("bad.mix", "10 add_int\n10 ad_long\n");
    refused(&["run", "--mix", mix], USAGE, &["bad.mix:2:", "did you mean add_long?"]);
    let mix = file("empty.mix", "# nothing\n");
    refused(&["run", "--mix", mix], USAGE, &["empty.mix: no job"]);

    let none = directory.path("none.toml");
    let syntax = file("syntax.toml", "name = \n");
    let key = file("key.toml", "nonsense = 1\n");
    for args in [
        ["reproduce", "--only", "table"].as_slice(),
        ["reproduce", "semaphore-2008", "--machine"].as_slice(),
        ["sim", "--kernel", "2.6.25", "--machine"].as_slice(),
        ["sim", "--kernel"].as_slice(),
    ] {
        let with = |file: &str| {
            let mut args = args.to_vec();
            args.push(file);
            refused(&args, USAGE, &[file]);
        };
        with(none);
        with(syntax);
        with(key);
    }
    let shipped = include_str!("../../../../machines/quad-2008-shared-llc.toml");
    let machine = file("machine.toml", &shipped.replace("cpus = 4", "cpus = 5000"));
    let args = ["sim", "--kernel", "2.6.25", "--machine", machine];
    refused(&args, USAGE, &["topology.cpus: 5000 is", "1 to 1024"]);
    for (step, told) in [("writ = 1.0", "kernel_ns.writ of "), ("write = -5", "-5 is out of range")]
    {
        let machine = file("steps.toml", &format!("{shipped}\n[kernel_ns]\n{step}\n"));
        let args = ["sim", "--kernel", "2.6.25", "--users", "1", "--machine", machine];
        refused(&args, USAGE, &["steps.toml", told]);
    }
    let shipped = include_str!("../../../../experiments/semaphore-2008.toml");
    let of = |from: &str, to: &str| file("experiment.toml", &shipped.replace(from, to));
    let hz = of("hz\" = 250", "hz\" = 251");
    refused(&["reproduce", hz], USAGE, &["grid spread", "config.hz", "100, 250, 300 or 1000"]);
    let users = of("users = 2000\n", "users = 0\n");
    refused(&["reproduce", users], USAGE, &["experiment.toml:9: inputs.users", "1 to 1000000"]);
    let key = of("\nscale = 4\n", "\nscael = 4\n");
    refused(&["reproduce", key], USAGE, &["experiment.toml:", "did you mean scale?"]);
    let line = 1 + shipped.lines().position(|line| line.contains("[56096.4,")).expect("published");
    let place = format!("experiment.toml:{line}: ");
    let nan = of("[56096.4, 55894.4]", "[nan, 55894.4]");
    refused(&["reproduce", nan], USAGE, &[&place, "jobs_per_min[0]", "finite"]);
    let huge = of("[56096.4, 55894.4]", "[56096.4, 1e300]");
    let words = [place.as_str(), "jobs_per_min[1]", "out of range (-1e15 to 1e15)"];
    refused(&["reproduce", huge], USAGE, &words);
    let baseline = of("baseline = \"2.6.25\"", "baseline = \"2.6.24\"");
    refused(&["reproduce", baseline], USAGE, &["no point is \"2.6.24\""]);
}

#[test]
fn cold_files_want_one_file_system() {
    let directory = directory("cold");
    let text = "title = \"cold\"\n[inputs]\nworkload = \"dpunish\"\nmachine = \"smp8-2007\"\n\
        kernel = \"2.6.16\"\ncold = true\n[[grid]]\nname = \"one\"\ntarget = \"work\"\nseeds = 1\n\
        metrics = [\"real_s\"]\n[[grid.axis]]\nkey = \"memory_mib\"\nvalues = [1024]\n";
    let file = directory.write("cold.toml", text);
    refused(&["reproduce", file], USAGE, &["grid one", "cold: ", "32 memory file systems"]);
}

/// Each of these read without end, or waited for a writer.
#[test]
fn inputs_without_end_are_refused() {
    let directory = directory("endless");
    let pipe = directory.path("pipe.toml");
    let made = std::process::Command::new("mkfifo").arg(pipe).status().expect("starts");
    assert!(made.success());
    for args in [
        ["sim", "--kernel"].as_slice(),
        ["sim", "--kernel", "2.6.25", "--machine"].as_slice(),
        ["reproduce"].as_slice(),
        ["run", "--mix"].as_slice(),
        ["compare", "true"].as_slice(),
    ] {
        refused(&[args, &[pipe]].concat(), USAGE, &[pipe, "this is a pipe"]);
        if !args.contains(&"sim") && args != ["reproduce"] {
            let zero = [args, &["/dev/zero"]].concat();
            refused(&zero, USAGE, &["/dev/zero", "this is a device"]);
        }
    }
}

/// Each of these was accepted.
#[test]
fn numbers_that_make_no_sense_name_the_line_and_the_range() {
    let directory = directory("absurd");
    let file = |name: &str, base: &str, line: &str| {
        directory.write(name, format!("based_on = \"{base}\"\n{line}\n"))
    };
    for (line, told) in [
        ("speed = 1e-300", "machine.toml:2: speed: 1e-300 is out of range (0.001 to 1000)"),
        ("speed = inf", "machine.toml:2: speed: inf is out of range"),
        ("price_ns.hit = nan", "machine.toml:2: price_ns.hit: NaN is out of range"),
    ] {
        let machine = file("machine.toml", "quad-2008-two-dies", line);
        refused(&["sim", "--kernel", "2.6.25", "--machine", machine], USAGE, &[told]);
    }
    let kernel = file("kernel.toml", "2.6.25", "softirq.passes = 4000000000");
    let told = "kernel.toml:2: softirq.passes: 4000000000 is out of range (1 to 1000)";
    refused(&["sim", "--kernel", kernel], USAGE, &[told]);
}

#[test]
fn changes_that_nothing_follows_are_refused() {
    let sim = |set| ["sim", "--kernel", "2.6.25", "--set", set];
    refused(&sim("kernel.config.hzz=1"), USAGE, &["config.hzz", "did you mean hz?"]);
    refused(&sim("machine.speed=0"), USAGE, &["machine.speed=0", "0.001 to 1000"]);
    refused(&sim("experiment.tasks=1"), USAGE, &["kernel.KEY=VALUE and machine.KEY=VALUE"]);
    refused(&sim("hz=1"), USAGE, &["KIND.KEY=VALUE"]);
    refused(&["locks", "--set", "machine.speed=2"], USAGE, &["--kernel"]);
}

#[test]
fn results_that_cannot_be_written() {
    let directory = directory("results");

    let missing = directory.path("missing/result.json");
    refused(&to(missing), ENVIRONMENT, &["missing/result.json", "make it"]);
    refused(&["reproduce", "--output", missing], ENVIRONMENT, &["make it"]);
    refused(&["run", "--record", missing], ENVIRONMENT, &["make it"]);
    let plot = directory.path("missing/plot.svg");
    refused(&["reproduce", "zone-law", "--plot", plot], ENVIRONMENT, &["make it"]);
    let formats = ["plot.png", "end it with .svg"];
    refused(&["reproduce", "zone-law", "--plot", "plot.png"], USAGE, &formats);
    refused(&to(directory.path("")), ENVIRONMENT, &["is a directory", "name a file"]);
    refused(&to("/dev/full"), ENVIRONMENT, &["/dev/full", "No space", "free space"]);
    let device = std::fs::metadata("/dev/full").expect("still there");
    assert!(device.file_type().is_char_device(), "a device must not be replaced");

    let good = directory.path("result.txt");
    ends(&to(good), 0);
    assert!(std::fs::read_to_string(good).expect("written").contains("opportunistic"));
    let entries = std::fs::read_dir(&*directory).expect("readable").count();
    assert_eq!(entries, 1, "nothing but the result");

    let full = File::options().write(true).open("/dev/full").expect("a device");
    let output = finish(convoy(&QUICK).stdout(full), ENVIRONMENT);
    assert!(stderr(&output).contains("standard output"), "{}", stderr(&output));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = convoy(&QUICK).spawn().expect("starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!((code(&output), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn messages_that_nobody_reads_cost_neither_result_nor_record() {
    let place = directory("deaf");
    let (store, result) = (place.path("runs.sqlite3"), place.path("result.json"));
    let load = ["run", "--users", "1", "--shrink", "1000000", "--no-predict", "--format", "json"];
    let args = [&load[..], &["--store", store, "--output", result]].concat();
    let mut child = convoy(&args).spawn().expect("starts");
    // The result goes to the file, "stored as run" to a pipe that is closed.
    drop(child.stderr.take());
    assert_eq!(code(&child.wait_with_output().expect("ends")), Some(0));
    assert!(std::fs::read_to_string(result).expect("a result").contains("jobs_per_min"));
    let list = run(&["runs", "list", "--store", store]);
    assert!(stdout(&list).contains("jobs/min"), "{}", stdout(&list));
    let mut child = convoy(&["run", "--mix", "none"]).spawn().expect("starts");
    drop(child.stderr.take());
    assert_eq!(code(&child.wait_with_output().expect("ends")), Some(USAGE));
}

#[test]
fn work_directories_that_cannot_be_used() {
    let missing = ["run", "--users", "1", "--shrink", "1000000", "--dir", "/nonexistent/place"];
    refused(&missing, ENVIRONMENT, &["/nonexistent/place", "--dir"]);
    let file =
        ["run", "--users", "1", "--shrink", "1000000", "--dir", env!("CARGO_BIN_EXE_convoy")];
    refused(&file, ENVIRONMENT, &["--dir"]);
}
