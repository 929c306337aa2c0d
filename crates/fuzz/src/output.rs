//! Checks of an output: it has no characters that control a terminal, and no elements of
//! a page that a name has made.

/// Elements of the pages and drawings. A name that is not escaped would add another one, or one of
/// these with the mark of [`TOKENS`](crate::tokens::TOKENS).
const ELEMENTS: [&str; 29] = [
    "!doctype", "a", "body", "circle", "code", "div", "g", "h1", "head", "header", "html", "line",
    "link", "main", "meta", "noscript", "p", "path", "polyline", "pre", "rect", "script", "span",
    "style", "svg", "text", "title", "tspan", "!DOCTYPE",
];
/// Elements with text and no elements in them.
const RAW: [&str; 2] = ["script", "style"];
/// The name of the elements and attributes that inputs contain.
const MARK: &str = "zq";

/// Checks that `text` has no character that controls a terminal or turns the direction of writing.
pub(crate) fn assert_plain(text: &str, what: &str) {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let found = text.find(|c: char| c.is_control() && !"\n\t".contains(c) || turns(c));
    let near = found.map(|at| text[at..].chars().take(40).collect::<String>());
    assert_eq!(near, None, "a control character in {what}");
}

/// Checks that all elements of a page are its own.
pub(crate) fn assert_own_markup(page: &str, what: &str) {
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let (tag, bare) = tag(rest);
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '!');
        let name = tag.trim_start_matches('/').split(word).next().unwrap_or_default();
        let is_own = ELEMENTS.contains(&name) && !bare.contains(MARK);
        assert!(is_own, "an element of a name in {what}: <{tag}>");
        rest = &rest[tag.len()..];
        if RAW.contains(&name) && !tag.starts_with('/') {
            let end = rest.find(&format!("</{name}"));
            rest = &rest[end.unwrap_or_else(|| panic!("{what} ends within <{name}>"))..];
        }
    }
}

/// The text of a tag up to its end, and the part of it outside of quotation marks.
fn tag(text: &str) -> (&str, String) {
    let (mut quote, mut bare) = (None, String::new());
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return (&text[..at], bare),
            (None, '"' | '\'') => quote = Some(c),
            (None, _) => bare.push(c),
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
        }
    }
    (text, bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_own(page: &str) -> bool {
        std::panic::catch_unwind(|| assert_own_markup(page, "a page")).is_ok()
    }

    #[test]
    fn elements_of_names_are_found_and_text_is_none() {
        assert!(is_own("<p class=\"what\">&lt;zq&gt; zq</p><script>1 < zq</script><pre></pre>"));
        for page in [
            "<p><zq></p>",
            "<p title='a' zq=''>",
            "<script>\"</script><zq>\"</script>",
            "<style>",
            "<p><b>bold</b></p>",
        ] {
            assert!(!is_own(page), "{page}");
        }
    }

    #[test]
    fn characters_that_control_a_terminal_are_found() {
        let is_plain = |text| std::panic::catch_unwind(|| assert_plain(text, "a text")).is_ok();
        assert!(is_plain("a\tb\nµ – é"));
        assert!(
            ["\u{1b}[31m", "\r", "\u{9b}31m", "\u{7f}", "\u{202e}"].map(is_plain) == [false; 5]
        );
    }
}
