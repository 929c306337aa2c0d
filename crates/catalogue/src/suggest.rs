//! Suggestions for misspelt names.

/// Edit distance (insertions, deletions, substitutions).
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The name among `known` that `name` most resembles: at most two edits away, and fewer than half
/// of its letters.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = 2.min(name.chars().count() / 2);
    let near = known.map(|other| (distance(name, other), other)).filter(|(far, _)| *far <= most);
    near.min_by_key(|(far, _)| *far).map(|(_, other)| other)
}

/// The same as the end of a sentence: `; did you mean NAME?`, or nothing.
pub fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |other| format!("; did you mean {other}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_recognised_and_a_stranger_is_not() {
        assert_eq!(distance("sieve", "sieve"), 0);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(nearest("seive", ["add_int", "sieve"].into_iter()), Some("sieve"));
        assert_eq!(nearest("x", ["a", "sieve"].into_iter()), None);
        assert_eq!(hint("hzz", ["hz"].into_iter()), "; did you mean hz?");
    }
}
