//! Ratchets by crate: lines of Rust, pronoun-like names, and closures bound to a name.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::finding::Findings;
use super::source::{Kind, Source, Sources, Token};

/// A limit of lines that exceeds them by more than this is reported as stale.
const LINES_SLACK: usize = 200;
/// Places that a finding lists.
const PLACES: usize = 6;

const PRONOUNS: Ratchet = Ratchet {
    rule: "pronoun",
    unit: "% of the names are pronoun-like",
    per: 100.0,
    aim: 2.0,
    slack: 0.5,
};
const CLOSURES: Ratchet = Ratchet {
    rule: "bound-closure",
    unit: "closures with a name per 1,000 lines",
    per: 1000.0,
    aim: 3.0,
    slack: 0.5,
};

pub(crate) struct Limits<'a> {
    pub(crate) lines: &'a BTreeMap<String, usize>,
    pub(crate) pronouns: &'a Pronouns,
    pub(crate) closures: &'a BTreeMap<String, f64>,
}

/// `[pronouns]` of `tidy.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pronouns {
    /// Names that do not say which thing they hold.
    words: Vec<String>,
    /// Largest share of names bound by `let`, by crate, percent.
    limits: BTreeMap<String, f64>,
}

/// A rate that may only fall.
pub(crate) struct Ratchet {
    pub(crate) rule: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) per: f64,
    /// The limit of a part without an entry.
    pub(crate) aim: f64,
    /// A limit that exceeds the rate by more than this is stale.
    pub(crate) slack: f64,
}

/// Occurrences in one part of the tree.
#[derive(Default)]
pub(crate) struct Tally {
    /// Number of words, names or lines.
    pub(crate) base: usize,
    pub(crate) places: Vec<String>,
}

impl Ratchet {
    /// Reports a rate above its limit, and a limit that is too high.
    pub(crate) fn judge(
        &self,
        findings: &mut Findings,
        part: &str,
        tally: &Tally,
        limit: Option<f64>,
    ) {
        let rate = self.per * tally.places.len() as f64 / tally.base.max(1) as f64;
        let allowed = limit.unwrap_or(self.aim);
        if rate > allowed {
            let step = tally.places.len().div_ceil(PLACES);
            let places: Vec<&str> = tally.places.iter().step_by(step).map(String::as_str).collect();
            let places = places.join(", ");
            let cure =
                format!("{part}: {rate:.1} {}, limit {allowed}: rewrite {places}", self.unit);
            findings.add(0, self.rule, cure);
        } else if limit.is_some() && rate + self.slack < allowed {
            findings.add(
                0,
                self.rule,
                format!("lower the limit of {part}: {rate:.1}, not {allowed}"),
            );
        }
    }
}

/// Reports crates above one of their limits, and limits that are too high.
pub(crate) fn check(findings: &mut Findings, sources: &Sources, limits: &Limits<'_>) {
    let Limits { lines, pronouns, closures } = limits;
    let mut tallies: BTreeMap<&str, (Tally, Tally)> = BTreeMap::new();
    for (path, source) in sources {
        let Some(path_in_crates) = path.strip_prefix("crates/") else { continue };
        let name = path_in_crates.split('/').next().unwrap_or_default();
        let (named, closed) = tallies.entry(name).or_default();
        closed.base += source.lines();
        for binding in bindings(source) {
            named.base += 1;
            let place = format!("{path}:{}: `{}`", binding.name.line + 1, binding.name.text);
            if binding.is_closure {
                closed.places.push(place.clone());
            }
            if pronouns.words.iter().any(|word| word == binding.name.text) {
                named.places.push(place);
            }
        }
    }
    for (name, (named, closed)) in &tallies {
        limit_lines(findings, name, closed.base, lines.get(*name).copied().unwrap_or(0));
        PRONOUNS.judge(findings, name, named, pronouns.limits.get(*name).copied());
        CLOSURES.judge(findings, name, closed, closures.get(*name).copied());
    }
    let limits = lines.keys().chain(pronouns.limits.keys()).chain(closures.keys());
    for name in limits.filter(|name| !tallies.contains_key(name.as_str())) {
        findings.add(0, "lines", format!("no crate `{name}`: remove its limits"));
    }
}

fn limit_lines(findings: &mut Findings, name: &str, lines: usize, limit: usize) {
    if lines > limit {
        let cure = format!(
            "{name} has {lines} lines of Rust, limit {limit}: remove some, or raise the limit and \
             give the reason in a comment there"
        );
        findings.add(0, "lines", cure);
    } else if lines + LINES_SLACK < limit {
        findings.add(0, "lines", format!("lower the limit of {name}: {lines}, not {limit}"));
    }
}

/// A name that a `let` brings into scope.
struct Binding<'a> {
    name: Token<'a>,
    is_closure: bool,
}

/// Returns the names that are bound by `let`, also in `if let` and `while let`.
fn bindings<'a>(source: &Source<'a>) -> Vec<Binding<'a>> {
    let mut bindings = Vec::new();
    for (index, token) in source.tokens.iter().enumerate() {
        if token.text == "let" {
            bound(&source.tokens[index + 1..], &mut bindings);
        }
    }
    bindings
}

/// Returns whether a word is a name in the style of variables.
fn is_variable(kind: Kind, word: &str) -> bool {
    kind == Kind::Word && word.starts_with(|letter: char| letter.is_lowercase() || letter == '_')
}

fn text<'a>(tokens: &[Token<'a>], index: usize) -> &'a str {
    tokens.get(index).map_or("", |token| token.text)
}

/// Appends the names of the pattern with which `tokens` begin.
fn bound<'a>(tokens: &[Token<'a>], bindings: &mut Vec<Binding<'a>>) {
    let (first, mut depth, mut in_type) = (bindings.len(), 0_u32, false);
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            ":" if depth == 0 => in_type = true,
            "=" | ";" if depth == 0 => {
                let body = if text(tokens, index + 1) == "move" { index + 2 } else { index + 1 };
                if let [binding] = &mut bindings[first..] {
                    binding.is_closure = token.text == "=" && text(tokens, body) == "|";
                }
                return;
            }
            // The name of a path, a constructor or a field.
            _ if matches!(text(tokens, index + 1), "::" | "(" | "{" | ":") && depth > 0 => {}
            "mut" | "ref" | "_" => {}
            name if !in_type && is_variable(token.kind, name) => {
                bindings.push(Binding { name: *token, is_closure: false });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::sources;
    use super::*;

    fn names(text: &str) -> Vec<(&str, bool)> {
        let bindings = bindings(&Source::new(text));
        bindings.iter().map(|binding| (binding.name.text, binding.is_closure)).collect()
    }

    fn limits(limit: Option<f64>) -> BTreeMap<String, f64> {
        limit.map(|limit| ("a".to_owned(), limit)).into_iter().collect()
    }

    fn cures(text: &str, lines: usize, names: Option<f64>, closures: Option<f64>) -> Vec<String> {
        let words = ["all", "at"].map(str::to_owned).to_vec();
        let limits = Limits {
            lines: &BTreeMap::from([("a".to_owned(), lines)]),
            pronouns: &Pronouns { words, limits: limits(names) },
            closures: &limits(closures),
        };
        let files = BTreeMap::from([("crates/a/src/b.rs".to_owned(), text.to_owned())]);
        Findings::cures(|findings| check(findings, &sources(&files), &limits))
    }

    #[test]
    fn names_of_patterns_are_bound_and_types_and_fields_are_not() {
        assert_eq!(names("let mut a: Vec<u8> = b; let c;"), [("a", false), ("c", false)]);
        assert_eq!(names("let (a, [b, _]) = x;"), [("a", false), ("b", false)]);
        assert_eq!(names("if let Some(a::B { c: d, e }) = x {}"), [("d", false), ("e", false)]);
        assert_eq!(names("while let Some(ref a @ Ok(1)) = f::<u8>(b) {}"), [("a", false)]);
    }

    #[test]
    fn closures_are_known_by_their_bar() {
        assert_eq!(names("let a = |b| c;"), [("a", true)]);
        assert_eq!(names("let a: F = move || c;"), [("a", true)]);
        assert_eq!(names("let a = b(|c| d) | e;"), [("a", false)]);
    }

    #[test]
    fn lines_are_limited_and_a_limit_follows_them_down() {
        let text = "\n".repeat(10);
        assert_eq!(cures(&text, 10, None, None), [""; 0]);
        assert!(cures(&text, 9, None, None)[0].contains("10 lines of Rust, limit 9"));
        assert_eq!(cures(&text, 210, None, None), [""; 0]);
        assert_eq!(cures(&text, 211, None, None), ["lower the limit of a: 10, not 211"]);
    }

    #[test]
    fn rates_above_their_limit_are_found_with_places_and_limits_fall() {
        let text = "let at = 1;\nlet entry = 2;\n";
        assert!(cures(text, 2, None, None)[0].ends_with("rewrite crates/a/src/b.rs:1: `at`"));
        assert_eq!(cures(text, 2, Some(50.0), None), [""; 0]);
        assert_eq!(cures(text, 2, Some(51.0), None), ["lower the limit of a: 50.0, not 51"]);
        let closure = "let square = |side| side * side;\n";
        assert!(
            cures(closure, 1, None, None)[0]
                .contains("1000.0 closures with a name per 1,000 lines, limit 3")
        );
        assert_eq!(cures(closure, 1, None, Some(1000.0)), [""; 0]);
    }
}
