//! How words and numbers are written in every table.

use std::borrow::Cow;

/// Placeholder for a missing number.
pub const NOTHING: &str = "–";

/// `value` with `decimals` digits after the point, or [`NOTHING`] if it is not finite. Never a
///   negative zero.
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let text = format!("{value:.decimals$}");
    if text.starts_with('-') && text.bytes().all(|byte| b"-0.".contains(&byte)) {
        return text[1..].to_owned();
    }
    text
}

/// `value` with three significant digits and no exponent: 0.105, 22.3, 3880.
pub fn significant(value: f64) -> String {
    match value.abs() {
        0.0 | 99.95.. => fixed(value, 0),
        9.995.. => fixed(value, 1),
        0.9995.. => fixed(value, 2),
        _ => fixed(value, 3),
    }
}

/// Microseconds in the unit that a person reads: 72.5 ns, 5.25 us, 27.8 ms, 37.6 s.
pub(crate) fn duration(us: f64) -> String {
    match us {
        _ if !us.is_finite() => NOTHING.to_owned(),
        999_500.0.. => format!("{} s", significant(us / 1e6)),
        999.5.. => format!("{} ms", significant(us / 1e3)),
        0.9995.. | 0.0 => format!("{} us", significant(us)),
        _ => format!("{} ns", significant(us * 1e3)),
    }
}

/// Characters of `text`; reports do not contain wide or combining characters.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// Returns a text of at most this many characters, without the middle of a longer one: the ends
/// distinguish names.
pub fn middle(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(1);
    let head: String = text.chars().take(room.div_ceil(2)).collect();
    let tail: Vec<char> = text.chars().rev().take(room / 2).collect();
    head.trim_end().chars().chain(['…']).chain(tail.into_iter().rev()).collect()
}

/// A text without control characters of a terminal: names of programs, symbols, commits and files
/// are untrusted. Such characters are escaped as in JSON.
pub fn plain(text: &str) -> Cow<'_, str> {
    fn controls(c: char) -> bool {
        // The others turn the direction of writing, so that a text seems to be another one.
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        c.is_control() && !['\n', '\t'].contains(&c) || turns
    }
    if !text.contains(controls) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if controls(c) {
            plain.push_str("\\u");
            let digits = format!("{:04x}", u32::from(c));
            plain.push_str(&digits);
        } else {
            plain.push(c);
        }
    }
    Cow::Owned(plain)
}

/// Breaks `text` at blanks so that no line exceeds `limit`; later lines are indented by two.
pub fn wrap(text: &str, limit: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    // Names of other programs have any length: a name that is longer than a line is broken.
    let room = limit.saturating_sub(2).max(1);
    for word in text.split_whitespace().flat_map(|word| pieces(word, room)) {
        let line = lines.last_mut().expect("there is always a last line");
        if line.is_empty() {
            line.push_str(word);
        } else if width(line) + 1 + width(word) <= limit {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("  {word}"));
        }
    }
    lines
}

/// A word in pieces of at most `most` characters.
fn pieces(word: &str, most: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some((at, _)) = rest.char_indices().nth(most) {
        let (piece, more) = rest.split_at(at);
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}

/// `text` with a capital at its beginning.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// `one`, `one and two`, `one, two and three`.
pub(crate) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

/// The different words, in the order in which they first appear.
pub(crate) fn distinct<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_their_sign() {
        let shown: Vec<String> = [0.0, 0.105, 0.9996, 9.999, 22.31, 3_880.4, -1.5, f64::INFINITY]
            .map(significant)
            .into();
        assert_eq!(shown, ["0", "0.105", "1.00", "10.0", "22.3", "3880", "-1.50", NOTHING]);
        let times = [0.25, 999.6, 27_800.0, 37_580_964.0, f64::NAN].map(duration);
        assert_eq!(times, ["250 ns", "1.00 ms", "27.8 ms", "37.6 s", NOTHING]);
        assert_eq!(fixed(-0.04, 1), "0.0");
        assert_eq!(fixed(-0.06, 1), "-0.1");
    }

    #[test]
    fn the_middle_of_a_name_is_left_out() {
        assert_eq!(middle("short", 9), "short");
        assert_eq!(middle("a_very_long_name (file.c:12)", 15), "a_very_…e.c:12)");
        assert_eq!(width(&middle(&"x".repeat(300), 20)), 20);
    }
}
