//! What the readers of workfiles and configurations share.

/// What follows `keyword` in `line`, if the line begins with it in any case, as a word of its own:
/// after an optional colon or equals sign, trimmed.
pub(crate) fn keyword<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let head = line.get(..keyword.len())?;
    let rest = &line[keyword.len()..];
    let ends = rest.is_empty() || rest.starts_with([':', '=', ' ', '\t']);
    let rest = || rest.trim_start().trim_start_matches([':', '=']).trim();
    (head.eq_ignore_ascii_case(keyword) && ends).then(rest)
}

/// Edit distance (insertions, deletions, substitutions).
pub(crate) fn distance(a: &str, b: &str) -> usize {
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

/// The name among `known` that `name` most resembles, if it differs by at most two edits.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.filter(|other| distance(name, other) <= 2).min_by_key(|other| distance(name, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("sieve", "sieve"), 0);
        assert_eq!(distance("seive", "sieve"), 2);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(nearest("seive", ["add_int", "sieve"].into_iter()), Some("sieve"));
        assert_eq!(nearest("x", ["add_int", "sieve"].into_iter()), None);
    }

    #[test]
    fn a_keyword_is_a_word() {
        assert_eq!(keyword("FileSize: 10K", "FILESIZE"), Some("10K"));
        assert_eq!(keyword("FILESIZE 10K", "FILESIZE"), Some("10K"));
        assert_eq!(keyword("FILESIZE", "FILESIZE"), Some(""));
        assert_eq!(keyword("FILESIZES 1", "FILESIZE"), None);
        assert_eq!(keyword("FILÉ", "FILESIZE"), None);
    }
}
