//! Phrases that other code bases of the field do not use, per 1,000 words of comments and
//! documents: a ratchet for each directory.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::finding::Findings;
use super::ratchets::{Ratchet, Tally};
use super::source::Sources;

const RATCHET: Ratchet =
    Ratchet { rule: "prose", unit: "phrases per 1,000 words", per: 1000.0, aim: 0.0, slack: 8.0 };

/// `[prose]` of `tidy.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prose {
    /// Sequences of words in lower case.
    phrases: Vec<String>,
    /// Largest number per 1,000 words, by prefix of the path. The first matching prefix counts.
    limits: BTreeMap<String, f64>,
}

/// Reports prefixes with a rate above their limit, and limits that are too high.
pub(crate) fn check(
    findings: &mut Findings,
    files: &BTreeMap<String, String>,
    sources: &Sources,
    config: &Prose,
) {
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
            tally.base += words.split_whitespace().count();
            for phrase in &phrases {
                for _ in words.matches(phrase) {
                    tally.places.push(format!("{path}:{}: `{}`", index + 1, phrase.trim()));
                }
            }
        }
    }
    findings.begin("tidy.toml");
    for (prefix, tally) in &tallies {
        RATCHET.judge(findings, prefix, tally, Some(config.limits[*prefix]));
    }
}

/// Returns the lines of a Markdown page; those of code blocks are empty.
fn markdown(text: &str) -> Vec<String> {
    let mut fenced = false;
    let lines = text.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        if fenced || is_fence { String::new() } else { line.to_owned() }
    });
    lines.collect()
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
        Findings::cures(|findings| check(findings, &files, &sources(&files), &config))
    }

    #[test]
    fn a_rate_above_its_limit_is_found_with_its_place() {
        let text = "fn a() {}\n/// Nobody waits: the lock is that of `b`.\n";
        let cures = rules(100.0, "a/b.rs", text);
        assert!(cures[0].contains("a/b.rs:2: `nobody`"), "{cures:?}");
        assert!(cures[0].starts_with("a/: 250.0 phrases"), "{cures:?}");
    }

    #[test]
    fn code_and_other_directories_do_not_count() {
        assert_eq!(rules(1.0, "a/b.rs", "let nobody = \"nobody\"; // Is `nobody`.\n"), [""; 0]);
        assert_eq!(rules(1.0, "a/b.md", "Text.\n```\nnobody\n```\n"), [""; 0]);
        assert_eq!(rules(1.0, "c/b.md", "nobody\n"), [""; 0]);
    }

    #[test]
    fn a_limit_that_is_too_high_is_stale() {
        assert_eq!(rules(9.0, "a/b.md", "Text.\n"), ["lower the limit of a/: 0.0, not 9"]);
    }
}
