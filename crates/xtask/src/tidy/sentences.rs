//! No branch on a sentence: code must not decide by text that people read.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::finding::Findings;
use super::source::{Kind, Source, Sources, Token};

/// Methods that search text.
const SEARCHES: &[&str] =
    &["contains", "ends_with", "find", "split_once", "starts_with", "strip_prefix", "strip_suffix"];

/// `[sentences]` of `tidy.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sentences {
    /// Files that parse the output of other programs, each with the name of that output.
    parsers: BTreeMap<String, String>,
    /// Branches that are to be removed, by crate. A ratchet: only downwards.
    #[serde(default)]
    limits: BTreeMap<String, usize>,
}

/// Reports crates with more branches on a sentence than their limit, limits that are too high, and
/// parsers without such a branch.
pub(crate) fn check(findings: &mut Findings, sources: &Sources, config: &Sentences) {
    let mut crates: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut parsers = BTreeSet::new();
    for (path, source) in sources {
        let Some((name, _)) = path.strip_prefix("crates/").and_then(|p| p.split_once("/src/"))
        else {
            continue;
        };
        let branches = branches(source);
        if config.parsers.contains_key(*path) {
            parsers.extend((!branches.is_empty()).then_some(*path));
        } else {
            let places = branches.iter().map(|token| {
                format!("{path}:{}: {}", token.line + 1, token.text.lines().next().unwrap_or(""))
            });
            crates.entry(name).or_default().extend(places);
        }
    }
    for (name, places) in &crates {
        let limit = config.limits.get(*name).copied().unwrap_or(0);
        if places.len() > limit {
            let cure = format!(
                "{name} branches on {} sentences, limit {limit}: decide by a type, or list the \
                 parser of another program's output: {}",
                places.len(),
                places.join(", ")
            );
            findings.add(0, "sentence-branch", cure);
        } else if places.len() < limit {
            let cure = format!("lower the limit of {name}: {}, not {limit}", places.len());
            findings.add(0, "sentence-branch", cure);
        }
    }
    for path in config.parsers.keys().filter(|path| !parsers.contains(path.as_str())) {
        findings.add(0, "sentence-branch", format!("{path} parses no sentence: remove the entry"));
    }
}

/// Returns the sentences outside tests that are searched for or compared with, as literals or as
/// constants of this file.
fn branches<'a>(source: &Source<'a>) -> Vec<Token<'a>> {
    let tokens: Vec<Token> = source.tokens.iter().filter(|token| !token.is_test).copied().collect();
    let mut constants = BTreeMap::new();
    for window in tokens.windows(7) {
        let [keyword, name, colon, and, kind, equals, text] = window else { continue };
        let head = [keyword.text, colon.text, and.text, kind.text, equals.text];
        if head == ["const", ":", "&", "str", "="] && is_sentence(text) {
            constants.insert(name.text, *text);
        }
    }
    let mut branches = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let back = if text(&tokens, index, 1) == "&" { 2 } else { 1 };
        let after = tokens.get(index + 1).map_or("", |token| token.text);
        let [before, method, dot] = [0, 1, 2].map(|more| text(&tokens, index, back + more));
        let is_searched = before == "(" && dot == "." && SEARCHES.contains(&method) && after == ")";
        let is_compared = [before, after].iter().any(|text| matches!(*text, "==" | "!="));
        if is_searched || is_compared {
            let sentence = is_sentence(token).then_some(token);
            branches.extend(sentence.or_else(|| constants.get(token.text)));
        }
    }
    branches
}

fn text<'a>(tokens: &[Token<'a>], index: usize, back: usize) -> &'a str {
    index.checked_sub(back).map_or("", |index| tokens[index].text)
}

/// Returns whether a token is a string literal with a letter and a space.
fn is_sentence(token: &Token) -> bool {
    token.kind == Kind::Text
        && token.text.starts_with(['"', 'r'])
        && token.text.contains(' ')
        && token.text.trim_start_matches('r').contains(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::super::source::sources;
    use super::*;

    fn cures(text: &str, parser: bool, limit: usize) -> Vec<String> {
        let path = "crates/a/src/b.rs".to_owned();
        let parsers = parser.then(|| (path.clone(), "perf".to_owned())).into_iter().collect();
        let limits = BTreeMap::from([("a".to_owned(), limit)]);
        let files = BTreeMap::from([(path, text.to_owned())]);
        let config = Sentences { parsers, limits };
        Findings::cures(|findings| check(findings, &sources(&files), &config))
    }

    #[test]
    fn text_that_people_read_decides_nothing() {
        for bad in [
            "if said.find(\"They waited\").is_some() {}",
            "line.split_once(\"; then \")",
            "a == \"no lock\"",
            "\"no lock\" != a",
            "a == &\"no lock\"",
            "const SAID: &str = \"only samples\";\nfn f() { a.starts_with(SAID) }",
        ] {
            assert_eq!(cures(bad, false, 0).len(), 1, "{bad}");
        }
        for good in [
            "a.contains(\"lock\")",
            "a.split_once(\": \")",
            "println!(\"no lock\")",
            "list.contains(&lock)",
            "#[cfg(test)]\nmod tests { fn f() { assert!(a.contains(\"no lock\")); } }",
        ] {
            assert_eq!(cures(good, false, 0), [""; 0], "{good}");
        }
    }

    #[test]
    fn parsers_of_other_programs_are_listed_and_limits_fall() {
        let branch = "a.contains(\"no lock\");\n";
        assert_eq!(cures(branch, true, 0), [""; 0]);
        assert_eq!(cures(branch, false, 1), [""; 0]);
        assert_eq!(cures(branch, false, 2), ["lower the limit of a: 1, not 2"]);
        let stale = "crates/a/src/b.rs parses no sentence: remove the entry";
        assert_eq!(cures("let a = 1;\n", true, 0), [stale]);
    }
}
