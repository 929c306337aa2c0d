//! Phrases that other code bases of the field do not use, per 1,000 words of comments and
//! documents: a ratchet for each directory.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::finding::{Finding, Findings};
use super::source::Sources;

/// A limit that exceeds the rate by more than this is reported as stale.
const SLACK: f64 = 8.0;
/// Places that a finding lists.
const PLACES: usize = 4;

/// `[prose]` of `tidy.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prose {
    /// Sequences of words in lower case.
    phrases: Vec<String>,
    /// Largest number per 1,000 words, by prefix of the path. The first matching prefix counts.
    limits: BTreeMap<String, f64>,
}

/// Words and phrases of the files with one prefix.
#[derive(Default)]
struct Tally {
    words: usize,
    places: Vec<String>,
}

/// Reports prefixes with a rate above their limit, and limits that are too high.
pub(crate) fn check(
    files: &BTreeMap<String, String>,
    sources: &Sources,
    config: &Prose,
) -> Vec<Finding> {
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let phrases: Vec<String> = config.phrases.iter().map(|phrase| format!(" {phrase} ")).collect();
    for (path, text) in files {
        let Some(prefix) = config.limits.keys().find(|prefix| path.starts_with(*prefix)) else {
            continue;
        };
        let tally = tallies.entry(prefix).or_default();
        let markdown = if path.ends_with(".md") { markdown(text) } else { Vec::new() };
        let lines = sources.get(path.as_str()).map_or(&markdown, |source| &source.comments);
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let words = words(line);
            tally.words += words.split_whitespace().count();
            for phrase in &phrases {
                let count = words.matches(phrase).count();
                let place = || format!("{path}:{}: `{}`", index + 1, phrase.trim());
                tally.places.extend(std::iter::repeat_with(place).take(count));
            }
        }
    }
    tallies
        .iter()
        .filter_map(|(prefix, tally)| judge(prefix, tally, config.limits[*prefix]))
        .collect()
}

/// Compares the rate of one prefix with its limit.
fn judge(prefix: &str, tally: &Tally, limit: f64) -> Option<Finding> {
    let rate = 1000.0 * tally.places.len() as f64 / tally.words.max(1) as f64;
    let mut found = Findings::new(prefix);
    if rate > limit {
        let step = tally.places.len().div_ceil(PLACES);
        let places: Vec<&str> = tally.places.iter().step_by(step).map(String::as_str).collect();
        let places = places.join(", ");
        let cure = format!("{rate:.1} phrases per 1,000 words, limit {limit}: rewrite {places}");
        found.add(0, "prose", cure);
    } else if rate + SLACK < limit {
        found.add(0, "prose", format!("lower the limit in tidy.toml: {rate:.1}, not {limit}"));
    }
    found.list.pop()
}

/// Returns the lines of a Markdown page; those of code blocks are empty.
fn markdown(text: &str) -> Vec<String> {
    let mut fenced = false;
    let outside = |line: &str| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fenced || fence { String::new() } else { line.to_owned() }
    };
    text.lines().map(outside).collect()
}

/// `line` in lower case without punctuation and inline code, with a space around each word.
fn words(line: &str) -> String {
    let spoken = line.split('`').step_by(2).collect::<Vec<_>>().join(" x ").to_lowercase();
    let words = spoken.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty()).fold(" ".to_owned(), |all, word| all + word + " ")
}

#[cfg(test)]
mod tests {
    use super::super::source::sources;
    use super::*;

    fn rules(limit: f64, path: &str, text: &str) -> Vec<String> {
        let limits = BTreeMap::from([("a/".to_owned(), limit)]);
        let config = Prose { phrases: vec!["nobody".to_owned(), "that of".to_owned()], limits };
        let files = BTreeMap::from([(path.to_owned(), text.to_owned())]);
        check(&files, &sources(&files), &config).into_iter().map(|finding| finding.cure).collect()
    }

    #[test]
    fn a_rate_above_its_limit_is_found_with_its_place() {
        let text = "fn a() {}\n/// Nobody waits: the lock is that of `b`.\n";
        let found = rules(100.0, "a/b.rs", text);
        assert!(found[0].contains("a/b.rs:2: `nobody`"), "{found:?}");
        assert!(found[0].starts_with("250.0 "), "{found:?}");
    }

    #[test]
    fn code_and_other_directories_do_not_count() {
        assert_eq!(rules(1.0, "a/b.rs", "let nobody = \"nobody\"; // Is `nobody`.\n"), [""; 0]);
        assert_eq!(rules(1.0, "a/b.md", "Text.\n```\nnobody\n```\n"), [""; 0]);
        assert_eq!(rules(1.0, "c/b.md", "nobody\n"), [""; 0]);
    }

    #[test]
    fn a_limit_that_is_too_high_is_stale() {
        assert_eq!(rules(9.0, "a/b.md", "Text.\n"), ["lower the limit in tidy.toml: 0.0, not 9"]);
    }
}
