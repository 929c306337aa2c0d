//! Rules for Rust source.

use super::config::Config;
use super::finding::Findings;
use super::source::{Source, Sources, is_word, words};

const FILE_LINES: usize = 1000;

/// Where a simulated decision is made, so where nothing may differ between two executions.
const DETERMINISTIC: &[&str] = &[
    "crates/machine/src/",
    "crates/kernel/src/",
    "crates/workload/src/",
    "crates/lab/src/",
    "crates/runs/src/",
    "crates/mm/src/",
];

/// The parts of `lab` and `runs` that drive the real machine.
const HOST: &[&str] = &["crates/lab/src/pool.rs", "crates/runs/src/native"];

/// What differs between two executions, and what to use instead.
const AMBIENT: &[(&str, &str)] = &[
    ("Instant::now", "take the time from the platform or the Kernel trait"),
    ("SystemTime", "take the time from the platform or the Kernel trait"),
    ("thread::spawn", "start a task of the machine"),
    ("HashMap", "use a BTreeMap or a Vec: hash order is no order"),
    ("HashSet", "use a BTreeSet or a Vec: hash order is no order"),
    ("RandomState", "use a seeded generator"),
    ("rand::", "use the seeded generator of the machine"),
];

pub(crate) fn check(
    findings: &mut Findings,
    path: &str,
    text: &str,
    source: &Source,
    config: &Config,
) {
    length(findings, path, source, config);
    unsafe_places(findings, path, source, config);
    placeholders(findings, source);
    if path.starts_with("crates/") && path.contains("/src/") {
        figures(findings, text, config);
    }
    if is_in(path, DETERMINISTIC) && !is_in(path, HOST) {
        ambient(findings, source);
    }
}

fn is_in(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

fn length(findings: &mut Findings, path: &str, source: &Source, config: &Config) {
    let lines = source.lines();
    let limit = config.long_files.get(path).copied().unwrap_or(FILE_LINES);
    if lines > limit {
        findings.add(limit, "file-length", format!("{lines} lines of {limit}: split it by idea"));
    }
}

fn unsafe_places(findings: &mut Findings, path: &str, source: &Source, config: &Config) {
    if config.unsafe_places.iter().any(|place| path.starts_with(place)) {
        return;
    }
    for (index, line) in source.code.iter().enumerate() {
        if words(line).any(|(_, word)| word == "unsafe") {
            findings.add(
                index,
                "unsafe-place",
                "move it into the platform or the system-call layer",
            );
        }
    }
}

fn placeholders(findings: &mut Findings, source: &Source) {
    for (index, line) in source.comments.iter().enumerate() {
        if words(line).any(|(_, word)| word == concat!("FIX", "ME") || word == "XXX") {
            findings.add(index, "placeholder", "do it, or describe the limit in a sentence");
        }
    }
}

fn ambient(findings: &mut Findings, source: &Source) {
    for (index, line) in source.code.iter().enumerate() {
        for (name, cure) in AMBIENT.iter().filter(|(name, _)| contains_word(line, name)) {
            findings.add(
                index,
                "ambient",
                format!("{name} differs between two executions: {cure}"),
            );
        }
    }
}

/// Returns whether `line` contains `pattern` and not merely as a part of a longer word.
fn contains_word(line: &str, pattern: &str) -> bool {
    line.match_indices(pattern).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + pattern.len()..].chars().next();
        let open_end = pattern.ends_with(':');
        !before.is_some_and(is_word) && (open_end || !after.is_some_and(is_word))
    })
}

/// Returns whether a number is `figure`, perhaps with decimals or a type.
fn is_figure(number: &str, figure: &str) -> bool {
    let end = number.strip_prefix(figure);
    end.is_some_and(|end| end.is_empty() || end.starts_with(['.', 'f', 'u', 'i']))
}

/// A program that knows the published result can print it without computing it.
fn figures(findings: &mut Findings, text: &str, config: &Config) {
    for (index, line) in text.lines().enumerate() {
        let numbers = line.split(|c: char| !c.is_alphanumeric() && !"._,".contains(c));
        for number in numbers.filter(|word| word.bytes().any(|byte| byte.is_ascii_digit())) {
            let plain = number.replace(['_', ','], "");
            let plain = plain.trim_matches('.');
            if config.published_figures.iter().any(|figure| is_figure(plain, figure)) {
                let number = number.trim_end_matches([',', '.']);
                let cure = format!("{number} is a published result: read it from experiments/");
                findings.add(index, "published-figure", cure);
            }
        }
    }
}

/// Reports exceptions of `tidy.toml` that are not needed any more.
pub(crate) fn stale(findings: &mut Findings, sources: &Sources, config: &Config) {
    for place in &config.unsafe_places {
        let mut inside = sources.iter().filter(|(path, _)| path.starts_with(place));
        if !inside.any(|(_, source)| source.tokens.iter().any(|token| token.text == "unsafe")) {
            findings.add(0, "stale-exception", format!("{place} is safe: remove the entry"));
        }
    }
    for module in &config.not_locks {
        if !sources.contains_key(format!("crates/sync/src/{module}").as_str()) {
            findings.add(
                0,
                "stale-exception",
                format!("{module} does not exist: remove the entry"),
            );
        }
    }
    for path in config.long_files.keys() {
        if sources.get(path.as_str()).is_none_or(|source| source.lines() <= FILE_LINES) {
            findings.add(0, "stale-exception", format!("{path} is short enough: remove the entry"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::source::sources;
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let figures = vec!["12345".to_owned(), "0.625".to_owned()];
        let places = vec!["crates/sync/".to_owned(), "crates/machine/src/engine".to_owned()];
        let config =
            Config { published_figures: figures, unsafe_places: places, ..Config::default() };
        Findings::rules(|findings| check(findings, path, text, &Source::new(text), &config))
    }

    #[test]
    fn lengths_are_limited_until_an_exception_is_stale() {
        let long = "\n".repeat(FILE_LINES + 1);
        assert_eq!(rules("a.rs", &long[1..]), []);
        assert_eq!(rules("a.rs", &long), [(FILE_LINES + 1, "file-length")]);
        let long_files = BTreeMap::from([("a.rs".to_owned(), FILE_LINES + 1)]);
        let config = Config { long_files, ..Config::default() };
        let source = Source::new(&long);
        let rules = Findings::rules(|findings| check(findings, "a.rs", &long, &source, &config));
        assert_eq!(rules, []);
        for (text, is_stale) in [(long.as_str(), false), ("", true)] {
            let files = BTreeMap::from([("a.rs".to_owned(), text.to_owned())]);
            let cures = Findings::cures(|findings| stale(findings, &sources(&files), &config));
            assert_eq!(!cures.is_empty(), is_stale);
        }
    }

    #[test]
    fn unsafe_has_its_places() {
        let text = "// unsafe is only a word here\nlet a = unsafe { b() };\n";
        assert_eq!(rules("crates/sync/src/native.rs", text), []);
        assert_eq!(rules("crates/machine/src/engine/stack.rs", text), []);
        assert_eq!(rules("crates/machine/src/disk.rs", text), [(2, "unsafe-place")]);
        assert_eq!(rules("crates/host/src/jobs.rs", text), [(2, "unsafe-place")]);
        assert_eq!(rules("crates/stats/src/lib.rs", "#![forbid(unsafe_code)]\n"), []);
    }

    #[test]
    fn exceptions_that_nothing_needs_are_stale() {
        let config = Config {
            unsafe_places: vec!["crates/sync/".to_owned(), "crates/mm/".to_owned()],
            not_locks: vec!["lib.rs".to_owned(), "gone.rs".to_owned()],
            ..Config::default()
        };
        let files = [
            ("crates/sync/src/lib.rs", "fn a() { unsafe { b() } }\n"),
            ("crates/mm/src/lib.rs", "// unsafe\n"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let files = BTreeMap::from(files);
        let cures = Findings::cures(|findings| stale(findings, &sources(&files), &config));
        let expected =
            ["crates/mm/ is safe: remove the entry", "gone.rs does not exist: remove the entry"];
        assert_eq!(cures, expected);
    }

    #[test]
    fn comments_contain_no_reminders() {
        assert_eq!(rules("a.rs", "// The limit is one page.\n"), []);
        assert_eq!(rules("a.rs", &format!("// {}: later\n", "X".repeat(3))), [(1, "placeholder")]);
    }

    #[test]
    fn simulated_code_has_no_ambient_input() {
        let text =
            "use std::collections::HashMap;\nlet t = Instant::now();\nlet b = strand::a();\n";
        let ambient = [(1, "ambient"), (2, "ambient")];
        assert_eq!(rules("crates/machine/src/disk.rs", text), ambient);
        assert_eq!(rules("crates/lab/src/run.rs", text), ambient);
        assert_eq!(rules("crates/host/src/clock.rs", text), []);
        assert_eq!(rules("crates/cli/src/main.rs", text), []);
    }

    #[test]
    fn published_figures_stay_out_of_programs() {
        let file = "crates/report/src/table.rs";
        for bad in ["12345", "12_345", "\"12,345\"", "12345.0", "12345u64", "0.625"] {
            assert_eq!(
                rules(file, &format!("let a = {bad};\n")),
                [(1, "published-figure")],
                "{bad}"
            );
        }
        for good in ["123456", "912345", "0.6251", "10.625"] {
            assert_eq!(rules(file, &format!("let a = {good};\n")), [], "{good}");
        }
        assert_eq!(rules("tests/a.rs", "12345\n"), []);
    }
}
