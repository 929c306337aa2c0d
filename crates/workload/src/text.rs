//! Functions shared by the readers of workfiles and configurations.

/// Returns the text after `keyword` in `line`, if the line starts with it as a whole word, in any
/// case: after an optional colon or equals sign, trimmed.
pub(crate) fn keyword<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let head = line.get(..keyword.len())?;
    let rest = &line[keyword.len()..];
    let ends = rest.is_empty() || rest.starts_with([':', '=', ' ', '\t']);
    (head.eq_ignore_ascii_case(keyword) && ends)
        .then(|| rest.trim_start().trim_start_matches([':', '=']).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyword_is_a_word() {
        assert_eq!(keyword("FileSize: 10K", "FILESIZE"), Some("10K"));
        assert_eq!(keyword("FILESIZE 10K", "FILESIZE"), Some("10K"));
        assert_eq!(keyword("FILESIZE", "FILESIZE"), Some(""));
        assert_eq!(keyword("FILESIZES 1", "FILESIZE"), None);
        assert_eq!(keyword("FILÉ", "FILESIZE"), None);
    }
}
