//! Loading files: names, bases, overrides, errors.

use super::*;
use crate::{Json, load, parse, parsed, shelf::KERNELS};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Kernel {
    #[serde(skip)]
    name: String,
    lock: Lock,
    config: Config,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Lock {
    Semaphore,
    Spinlock,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    #[schemars(range(min = 1, max = 10_000))]
    hz: u32,
    #[schemars(range(min = 0.001, max = 1000.0))]
    speed: f64,
}

impl Entry for Kernel {
    const SHELF: &'static Shelf = &KERNELS;

    fn parse(tree: Json) -> Result<Self, Fault> {
        parsed(tree)
    }

    fn check(&self) -> Result<(), Fault> {
        let odd = !self.config.hz.is_multiple_of(2);
        if odd { Err(Fault::range("config.hz", 1.0, "even numbers")) } else { Ok(()) }
    }

    fn set_name(&mut self, label: String) {
        self.name = label;
    }
}

const ROOT: &str =
    "# A kernel. It is small.\nlock = \"semaphore\"\n\n[config]\nhz = 100\nspeed = 1.0\n";

/// Files in a separate directory.
struct Files(PathBuf);

impl Files {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let directory = std::env::temp_dir().join(format!("convoy-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        for (file, text) in files {
            fs::write(directory.join(file), text).unwrap();
        }
        Self(directory)
    }

    fn load(&self, file: &str, sets: &[&str]) -> Result<Loaded<Kernel>, String> {
        let sets: Vec<Set> = sets.iter().map(|set| set.parse().unwrap()).collect();
        let loaded = load(self.0.join(file).to_str().unwrap(), &sets);
        loaded.map_err(|error| error.to_string().replace(&format!("{}/", self.0.display()), ""))
    }

    fn error(&self, file: &str, sets: &[&str]) -> String {
        self.load(file, sets).unwrap_err()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_variant_is_three_lines() {
    let variant = "# Faster.\nbased_on = \"root.toml\"\nconfig.hz = 1000\n";
    let files = Files::new("variant", &[("root.toml", ROOT), ("fast.toml", variant)]);
    let root = files.load("root.toml", &[]).unwrap();
    let fast = files.load("fast.toml", &[]).unwrap();
    assert_eq!((fast.config.hz, fast.config.speed.to_bits()), (1000, 1.0_f64.to_bits()));
    assert_eq!(fast.lock, Lock::Semaphore);
    assert_eq!(fast.source.description, "Faster");
    let (label, hash) = (fast.label(), &fast.source.hash[..8]);
    assert_eq!(label, format!("fast.toml (based on root.toml; {hash})"));
    assert_eq!(fast.name, label);
    assert_ne!(root.source.hash, fast.source.hash);
    let set = files.load("root.toml", &["kernel.config.hz=1000"]).unwrap();
    assert_eq!(set.source.hash, fast.source.hash, "equal content, equal hash");
    let same = parse::<Kernel>("x.toml", &fast.to_toml()).unwrap();
    assert_eq!(same.source.hash, fast.source.hash, "what is printed can be loaded");
}

#[test]
fn errors_point_to_the_file_that_holds_the_cause() {
    let files = Files::new(
        "cause",
        &[
            ("root.toml", &ROOT.replace("100", "0")),
            ("child.toml", "based_on = \"root.toml\"\nlock = \"spinlok\"\n"),
            ("typo.toml", "based_on = \"good.toml\"\n\n[config]\nhzz = 3\n"),
            ("good.toml", ROOT),
            ("moved.toml", "based_on = \"good.toml\"\nhz = 3\n"),
            ("missing.toml", "lock = \"spinlock\"\n[config]\nhz = 2\n"),
            ("text.toml", "based_on = \"good.toml\"\nconfig.hz = \"x\"\n"),
        ],
    );
    let error = files.error("child.toml", &[]);
    assert_eq!(error, "root.toml:5: config.hz: 0 is out of range (1 to 10000)");
    let error = files.error("child.toml", &["kernel.config.hz=2"]);
    assert_eq!(
        error,
        "child.toml:2: lock: unknown value \"spinlok\"; did you mean spinlock?; accepted: \
         semaphore, spinlock"
    );
    let error = files.error("typo.toml", &[]);
    assert!(error.starts_with("typo.toml:4: config.hzz: unknown key; did you mean hz?"), "{error}");
    let error = files.error("moved.toml", &[]);
    assert!(error.starts_with("moved.toml:2: hz: unknown key; did you mean config.hz?"), "{error}");
    let error = files.error("missing.toml", &[]);
    assert_eq!(error, "missing.toml:2: config: the key speed is missing");
    let error = files.error("text.toml", &[]);
    let expected = "expected a whole number that is not negative, found \"x\"";
    assert_eq!(error, format!("text.toml:2: config.hz: {expected}"));
    let error = files.error("good.toml", &["kernel.config.hz=3"]);
    assert_eq!(error, "--set kernel.config.hz=3: config.hz: 1 is out of range (even numbers)");
}

#[test]
fn circles_and_strange_bases_are_refused() {
    let files = Files::new(
        "circle",
        &[
            ("a.toml", "based_on = \"b.toml\"\n"),
            ("b.toml", "\nbased_on = \"a.toml\"\n"),
            ("c.toml", "based_on = \"2.6.255\"\n"),
            ("d.toml", "based_on = 3\n"),
        ],
    );
    let error = files.error("a.toml", &[]);
    assert!(error.starts_with("b.toml:2: based_on: a.toml is in the end"), "{error}");
    let error = files.error("c.toml", &[]);
    assert!(error.contains("c.toml:1: based_on: unknown kernel \"2.6.255\"; did you"), "{error}");
    assert!(files.error("d.toml", &[]).starts_with("d.toml:1: based_on: expected a name"));
}

#[test]
fn absurd_numbers_are_refused_with_their_range() {
    for value in ["1e-300", "nan", "inf", "-inf", "1e300", "-1"] {
        let text = ROOT.replace("speed = 1.0", &format!("speed = {value}"));
        let error = parse::<Kernel>("x.toml", &text).unwrap_err().to_string();
        assert!(error.starts_with("x.toml:6: config.speed: "), "{error}");
        assert!(error.ends_with(" is out of range (0.001 to 1000)"), "{error}");
    }
}

#[test]
fn a_copy_cannot_claim_a_name() {
    let text = format!("name = \"2.6.25\"\n{ROOT}");
    let error = parse::<Kernel>("mine.toml", &text).unwrap_err().to_string();
    assert_eq!(error, "mine.toml:1: name: a kernel is named after its file; remove this line");
    let mine = parse::<Kernel>("mine.toml", ROOT).unwrap();
    assert!(mine.label().starts_with("mine.toml ("), "{}", mine.label());
}

#[test]
fn unknown_names_are_corrected_and_listed() {
    let error = load::<Kernel>("2.6.26rc1", &[]).unwrap_err().to_string();
    assert!(error.contains("did you mean 2.6.26-rc1?") && error.contains("6.18"), "{error}");
    let error = Text::open(&MIXES, "sharde").unwrap_err().to_string();
    assert!(error.contains("did you mean shared?") && error.contains("workfile"), "{error}");
}

#[test]
fn devices_and_missing_files_are_refused() {
    let error = load::<Kernel>("/nonexistent/x.toml", &[]).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/x.toml: No such file"), "{error}");
    let error = Text::open(&MIXES, "/dev/zero").unwrap_err().to_string();
    assert!(error.starts_with("/dev/zero: this is a device"), "{error}");
}

#[test]
fn a_set_that_changes_nothing_is_no_change() {
    let text = Sheet::of_text(&KERNELS, "x.toml", ROOT).unwrap();
    let plain = text.source().hash.clone();
    let same = text.read::<Kernel>(&["kernel.config.hz=100".parse().unwrap()]).unwrap();
    assert!(same.source.overrides.is_empty() && same.source.hash == plain);
}
