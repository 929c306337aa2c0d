//! Rules for `crates/sync`: file cards, and a reason for every memory ordering; the second one also
//! for `crates/preload`.

use super::config::Config;
use super::finding::Findings;
use super::source::{Source, Token};

/// The sections of a lock's file card, in their order.
const CARD: &[&str] = &[
    "States",
    "Transitions",
    "Invariants",
    "Memory ordering",
    "Progress and fairness",
    "Cost",
    "Lineage",
];

const ORDERINGS: &[&str] = &["Acquire", "Release", "AcqRel", "Relaxed", "SeqCst"];

/// Largest distance in lines between an ordering and its reason above.
const REACH: usize = 6;

pub(crate) fn check(
    findings: &mut Findings,
    path: &str,
    text: &str,
    source: &Source,
    config: &Config,
) {
    if path.starts_with("crates/preload/src/") {
        orderings(findings, source);
    }
    let Some(name) = path.strip_prefix("crates/sync/src/") else { return };
    // A module of tests may be a separate file.
    if !name.ends_with("tests.rs") {
        orderings(findings, source);
    }
    if !config.not_locks.iter().any(|module| module == name) {
        card(findings, text);
    }
}

fn card(findings: &mut Findings, text: &str) {
    let mut headings = text
        .lines()
        .filter_map(|line| line.strip_prefix("//! "))
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' '))
        .filter(|heading| CARD.contains(heading));
    for expected in CARD {
        if headings.next() != Some(*expected) {
            let cure =
                format!("the module documentation needs, in this order: {}", CARD.join(", "));
            return findings.add(0, "file-card", cure);
        }
    }
}

fn orderings(findings: &mut Findings, source: &Source) {
    let (mut in_use, mut last) = (false, None);
    for (index, token) in source.tokens.iter().enumerate() {
        in_use = token.text == "use" || in_use && token.text != ";";
        let is_judged = in_use || token.is_test || last == Some(token.line);
        if is_judged || !is_ordering(&source.tokens, index) {
            continue;
        }
        last = Some(token.line);
        let first = token.line.saturating_sub(REACH);
        if source.comments[first..=token.line].iter().all(|comment| comment.trim().is_empty()) {
            let cure = format!("say within {REACH} lines above what this ordering pairs with");
            findings.add(token.line, "ordering-comment", cure);
        }
    }
}

/// Returns whether a token is a memory ordering or a fence. A bare name counts only as an argument:
/// `Release` may be the name of a type.
fn is_ordering(tokens: &[Token], index: usize) -> bool {
    let after = tokens.get(index + 1).map_or("", |token| token.text);
    let [before, path] =
        [1, 2].map(|back| index.checked_sub(back).map_or("", |index| tokens[index].text));
    let is_argument = matches!(after, "," | ")") && matches!(before, "" | "(" | "," | ":");
    let is_qualified = before == "::" && path == "Ordering";
    let name = tokens[index].text;
    ORDERINGS.contains(&name) && (is_argument || is_qualified) || name == "fence" && after == "("
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let config = Config { not_locks: vec!["lib.rs".to_owned()], ..Config::default() };
        Findings::rules(|findings| check(findings, path, text, &Source::new(text), &config))
    }

    #[test]
    fn an_ordering_has_a_reason_nearby() {
        let file = "crates/sync/src/lib.rs";
        assert_eq!(rules(file, "// Pairs with unlock.\n\n\n\n\n\na.load(Acquire);\n"), []);
        assert_eq!(rules(file, "a.load(Acquire); // Pairs with unlock.\n"), []);
        let far = format!("// Pairs with unlock.\n{}a.load(Acquire);\n", "\n".repeat(6));
        assert_eq!(rules(file, &far), [(8, "ordering-comment")]);
        assert_eq!(rules(file, "a.load(Ordering::Relaxed);\n"), [(1, "ordering-comment")]);
        assert_eq!(rules(file, "a.cas(0, 1, AcqRel, order)\n"), [(1, "ordering-comment")]);
        assert_eq!(rules(file, "fence(order);\n"), [(1, "ordering-comment")]);
        assert_eq!(rules("crates/mm/src/lib.rs", "a.load(Acquire);\n"), []);
        let object = "crates/preload/src/trace.rs";
        assert_eq!(rules(object, "a.load(Acquire);\n"), [(1, "ordering-comment")]);
        assert_eq!(rules(object, "// Pairs with unlock.\na.load(Acquire);\n"), []);
    }

    #[test]
    fn imports_tests_and_other_names_are_no_orderings() {
        let file = "crates/sync/src/lib.rs";
        assert_eq!(rules(file, "use core::sync::atomic::Ordering::{\n    Acquire,\n};\n"), []);
        assert_eq!(rules("crates/sync/src/tests.rs", "a.load(Acquire);\n"), [(1, "file-card")]);
        assert_eq!(rules(file, "#[cfg(test)]\nmod tests {\n    a.load(Acquire);\n}\n"), []);
        assert_eq!(rules(file, "record(LockEvent::Release);\nlet fence = 1;\n"), []);
        assert_eq!(rules(file, "fn a() -> Release<'_> { Release::Kept }\n"), []);
    }

    #[test]
    fn a_lock_has_its_card_in_order() {
        let file = "crates/sync/src/spin.rs";
        let card = format!("//! ## {}\n", CARD.join("\n//! ## "));
        assert_eq!(rules(file, &card), []);
        assert_eq!(rules(file, &card.replace("Cost", "Price")), [(1, "file-card")]);
        let swapped =
            card.replace("Cost", "C").replace("Lineage", "Cost").replace("C\n", "Lineage\n");
        assert_eq!(rules(file, &swapped), [(1, "file-card")]);
        assert_eq!(rules("crates/sync/src/lib.rs", ""), []);
    }
}
