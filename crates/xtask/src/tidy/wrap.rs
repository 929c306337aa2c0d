//! `cargo xtask tidy --wrap`: comments wider than a page, wrapped. (rustfmt does it on nightly
//!   only.)

use super::text::COLUMNS;

/// Wraps each paragraph of comments in which a line is too wide. Tables, headings and fenced blocks
/// stay as they are.
pub(crate) fn wrap(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut wrapped = Vec::new();
    let mut fenced = false;
    let mut at = 0;
    while at < lines.len() {
        let Some((prefix, first)) = comment(lines[at]) else {
            fenced = false;
            wrapped.push(lines[at].to_owned());
            at += 1;
            continue;
        };
        fenced ^= first.starts_with("```");
        let length = 1 + lines[at + 1..]
            .iter()
            .take_while(|line| {
                comment(line).is_some_and(|(other, text)| other == prefix && !opens(text))
            })
            .count();
        let paragraph = &lines[at..at + length];
        let wide = paragraph.iter().any(|line| line.chars().count() > COLUMNS);
        let fixed =
            first.starts_with(['|', '#']) || first.contains("----") || first.starts_with("```");
        if wide && !fenced && !fixed {
            fill(prefix, paragraph, &mut wrapped);
            at += length;
        } else {
            wrapped.push(lines[at].to_owned());
            at += 1;
        }
    }
    wrapped.push(String::new());
    wrapped.join("\n")
}

/// Splits a line that is a comment and nothing else into its prefix and its text.
fn comment(line: &str) -> Option<(&str, &str)> {
    let start = line.len() - line.trim_start().len();
    let marker = ["/// ", "//! ", "// "].into_iter().find(|m| line[start..].starts_with(m))?;
    let (prefix, text) = line.split_at(start + marker.len());
    (!text.trim().is_empty()).then_some((prefix, text))
}

/// Returns whether a line begins something new and must not be drawn into the paragraph above it.
fn opens(text: &str) -> bool {
    let numbered = text.split_once(". ").is_some_and(|(number, _)| {
        !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
    });
    numbered
        || text.starts_with("- ")
        || text.starts_with("* ")
        || text.starts_with(['|', '#', '`'])
}

fn fill(prefix: &str, paragraph: &[&str], wrapped: &mut Vec<String>) {
    let item = comment(paragraph[0]).is_some_and(|(_, text)| opens(text));
    let mut line = prefix.to_owned();
    let mut empty = true;
    for word in paragraph.iter().flat_map(|line| line[prefix.len()..].split_whitespace()) {
        if !empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            wrapped.push(std::mem::replace(&mut line, prefix.to_owned()));
            line.push_str(if item { "  " } else { "" });
            empty = true;
        }
        line.push_str(if empty { "" } else { " " });
        line.push_str(word);
        empty = false;
    }
    wrapped.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wide_paragraphs_change() {
        let narrow = "/// One.\n/// Two.\nfn a() {}\n";
        assert_eq!(wrap(narrow), narrow);
        let table = format!("//! | {} |\n", "x".repeat(120));
        assert_eq!(wrap(&table), table);
        let fence = format!("//! ```text\n//! {}\n//! ```\n", "x y ".repeat(40).trim_end());
        assert_eq!(wrap(&fence), fence);
    }

    #[test]
    fn words_keep_their_order_and_lines_their_limit() {
        let words = "word ".repeat(50);
        let text = format!("    // - {words}\n    // tail.\n    // - next\n    let a = 1;\n");
        let result = wrap(&text);
        assert!(result.lines().all(|line| line.chars().count() <= COLUMNS), "{result}");
        let flat = |text: &str| text.replace("//", "").split_whitespace().collect::<String>();
        assert_eq!(flat(&result), flat(&text));
        assert!(result.contains("\n    //   word"), "{result}");
        assert!(result.ends_with("\n    // - next\n    let a = 1;\n"), "{result}");
    }
}
