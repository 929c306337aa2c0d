//! `convoy sweep`: cells are stored one by one, by any process, and the result is identical to the
//! byte.

use crate::{Place, code, convoy, directory, ends, stderr, stdout};
use std::path::Path;
use std::time::Duration;

/// Twelve cells of some tenths of a second.
const EXPERIMENT: &str = r#"
title = "three kernels, two numbers of users, two seeds"
[inputs]
machine = "quad-2008-two-dies"
shrink = 20
[[grid]]
name = "users"
target = "sim"
seeds = 2
compare = { axis = "kernel", baseline = "2.6.25", metric = "jobs_per_min" }
[[grid.axis]]
key = "users"
values = [10, 20]
[[grid.axis]]
key = "kernel"
values = ["2.6.25", "2.6.26-rc1", "3.0"]
"#;

struct Sweeps {
    directory: Place,
    experiment: &'static str,
}

impl Sweeps {
    fn new(name: &str) -> Self {
        let directory = directory(name);
        Self { experiment: directory.write("mine.toml", EXPERIMENT), directory }
    }

    fn path(&self, name: &str) -> &'static str {
        self.directory.path(name)
    }

    /// Runs a sweep into the directory `name`, and returns its output.
    fn sweep(&self, name: &str, more: &[&str]) -> String {
        let dir = self.path(name);
        let args = [&["sweep", self.experiment, "--dir", dir, "--quiet"], more].concat();
        stdout(&ends(&args, 0))
    }

    fn results(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let read = |file: &str| std::fs::read(self.directory.join(name).join(file)).expect("there");
        (read("record.json"), read("result.csv"))
    }

    fn cells(&self, name: &str) -> usize {
        count(&self.directory.join(name).join("cells"))
    }
}

/// Complete cells in a directory.
fn count(cells: &Path) -> usize {
    let Ok(files) = std::fs::read_dir(cells) else { return 0 };
    files.flatten().filter(|file| file.path().extension().is_none()).count()
}

#[test]
fn killed_twice_divided_or_whole_it_is_the_same_bytes() {
    let place = Sweeps::new("sweep");
    let whole = place.sweep("whole", &[]);
    assert!(whole.starts_with("mine.toml"), "the verdict comes first: {whole}");
    let expected = place.results("whole");
    assert_eq!(place.cells("whole"), 12);

    // Killed in the middle, twice: no warning, no handler.
    for enough in [2, 6] {
        let dir = place.path("killed");
        let args = ["sweep", place.experiment, "--dir", dir, "--quiet", "--threads", "1"];
        let mut child = convoy(&args).spawn().expect("starts");
        while place.cells("killed") < enough && child.try_wait().expect("asked").is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _it_may_have_ended = child.kill();
        child.wait().expect("waited for");
    }
    let before = place.cells("killed");
    place.sweep("killed", &[]);
    assert!(before >= 6, "{before} cells had been kept");
    assert_eq!(place.results("killed"), expected);

    // Four parts in four directories.
    for part in ["1/4", "2/4", "3/4", "4/4"] {
        let text = place.sweep(&format!("part-{}", &part[..1]), &["--shard", part]);
        assert!(text.contains("3 of 12 cells are in"), "{text}");
    }
    let others = ["part-2", "part-3", "part-4"].map(|name| place.path(name));
    let merged: Vec<&str> = others.iter().flat_map(|other| ["--merge", other]).collect();
    place.sweep("part-1", &merged);
    assert_eq!(place.results("part-1"), expected);
}

/// Seeds that the spread of the first asks for: the same whether one process runs them or another
/// continues.
#[test]
fn a_sweep_runs_the_seeds_that_its_changes_ask_for() {
    let place = Sweeps::new("staged");
    let staged = "seeds = 2\nhalf_width = 0.001\nseeds_at_most = 3";
    let text = EXPERIMENT.replace("seeds = 2", staged).replace("[10, 20]", "[10]");
    place.directory.write("mine.toml", text);
    let whole = place.sweep("whole", &[]);
    assert_eq!(place.cells("whole"), 9, "{whole}");
    let line = whole.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line.contains("as the spread of the first 2 tells: 9 simulations"), "{whole}");
    for part in ["1/2", "2/2"] {
        let text = place.sweep("parts", &["--shard", part]);
        assert!(part == "2/2" || text.contains("of 6 cells are in"), "{text}");
    }
    place.sweep("parts", &[]);
    assert_eq!(place.results("parts"), place.results("whole"));
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let place = Sweeps::new("sweep-refused");
    let dir = place.path("cells");
    let args = ["sweep", place.experiment, "--dir", dir, "--shard", "5/4"];
    let output = ends(&args, 2);
    assert!(stderr(&output).contains("I/N"), "{}", stderr(&output));
    std::fs::create_dir_all(dir).expect("made");
    place.directory.write("cells/build", "another\n");
    let output = ends(&["sweep", place.experiment, "--dir", dir], 3);
    assert!(stderr(&output).contains("made by build another"), "{}", stderr(&output));
    let output =
        ends(&["sweep", place.experiment, "--dir", place.path("a"), "--merge", "/none"], 2);
    assert!(stderr(&output).contains("no directory of cells"), "{}", stderr(&output));
}

/// A copy of an experiment printed the numbers of its kernels under the labels of the shipped one,
/// and a kernel file was not a separate case.
#[test]
fn labels_are_those_of_what_ran() {
    let place = Sweeps::new("labels");
    let text = EXPERIMENT.replace("\"2.6.26-rc1\", \"3.0\"", "\"mine-kernel.toml\"");
    place.directory.write("mine.toml", text);
    let kernel = "based_on = \"3.0\"\n[config]\nhz = 1000\n";
    let file = place.directory.write("mine-kernel.toml", kernel);
    let args = ["reproduce", place.experiment, "--quiet", "--seeds", "1", "--no-store"];
    let output = ends(&args, 0);
    let text = stdout(&output);
    assert!(text.contains("mine-kernel.toml (based on 3.0; "), "{text}");
    assert!(!text.contains("26-rc1"), "{text}");

    // A kernel that the experiment does not name, from the command line.
    let args = ["reproduce", "--only", "table", "--scale", "500", "--seeds", "1", "--no-store"];
    let more = ["--quiet", "--kernel", "2.6.25", "--kernel", file];
    let output = ends(&[args.as_slice(), &more].concat(), 0);
    assert!(stdout(&output).contains("mine-kernel.toml (based on 3.0; "), "{}", stdout(&output));
}

/// A stored run was explained with the files of today and without the file system it had.
#[test]
fn a_stored_run_is_explained_from_its_record_alone() {
    let place = Sweeps::new("record");
    let kernel = place.directory.join("kernel.toml");
    std::fs::write(&kernel, "based_on = \"2.6.26-rc1\"\n[config]\nhz = 1000\n").expect("written");
    let store = place.path("runs.sqlite3");
    let convoy = |args: &[&str], directory: &Path| {
        let output = convoy(args).current_dir(directory).env("CONVOY_STORE", store).output();
        let output = output.expect("starts");
        assert_eq!(code(&output), Some(0), "{args:?}: {}", stderr(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let args = ["sim", "--kernel", "kernel.toml", "--users", "5,9", "--fs", "journal"];
    let ran =
        convoy(&[args.as_slice(), &["--quiet", "--format", "json"]].concat(), &place.directory);
    let args = ["reproduce", "mine.toml", "--seeds", "1", "--quiet", "--format", "json"];
    convoy(&args, &place.directory);
    // The kernel and the experiment are others now.
    std::fs::write(&kernel, "based_on = \"2.6.25\"\n").expect("written");
    std::fs::remove_file(place.directory.join("mine.toml")).expect("removed");
    let elsewhere = std::env::temp_dir();
    let explained = convoy(&["explain", "1", "--users", "9", "--format", "json", "-q"], &elsewhere);
    assert_eq!(explained["hash"], ran["points"][1]["hash"]);
    let args = ["explain", "2", "--kernel", "3.0", "--users", "20", "--format", "json", "-q"];
    let explained = convoy(&args, &elsewhere);
    let stored = convoy(&["runs", "show", "2", "--format", "json"], &elsewhere);
    let cells = stored["entry"]["body"]["grids"][0]["cells"].as_array().expect("cells");
    let of =
        |cell: &&serde_json::Value| cell["at"]["kernel"] == "3.0" && cell["at"]["users"] == "20";
    let cell = cells.iter().find(of).expect("the cell");
    assert_eq!(explained["hash"], cell["outcome"]["schedule_hash"]);
    assert!(
        stored["entry"]["body"]["build"].is_string() && stored["entry"]["body"]["hash"].is_string()
    );
}

#[test]
fn a_command_is_a_target_like_any_other() {
    let place = directory("command");
    let text = r#"
        title = "a command with more to do"
        [inputs]
        command = 'echo "took $((CONVOY_THREADS * 10 + 0 * CONVOY_SEED)) units"'
        value_regex = 'took (\d+)'
        [[grid]]
        name = "units"
        target = "command"
        seeds = 2
        compare = { axis = "threads", baseline = "1", metric = "value", change = "ratio" }
        metrics = ["value", "wall_s"]
        [[grid.axis]]
        key = "threads"
        values = [1, 3]
    "#;
    let path = place.write("sleep.toml", text);
    let output = ends(&["reproduce", path, "--quiet", "--no-store"], 0);
    let said = stdout(&output);
    assert!(said.contains("30.0000") && said.contains("3.00"), "{said}");
    place.write("sleep.toml", text.replace("echo", "exit 4;"));
    let output = ends(&["reproduce", path, "--quiet", "--no-store"], 3);
    assert!(stderr(&output).contains("ended with exit code 4"), "{}", stderr(&output));
}
