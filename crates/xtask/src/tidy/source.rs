//! Rust source, split into code and comments.

/// A Rust file, line by line. `code[i]` is line `i` with comments and the contents of strings and
/// character literals blanked, `comments[i]` is the comment text on line `i`; columns are kept.
pub(crate) struct Source {
    pub(crate) code: Vec<String>,
    pub(crate) comments: Vec<String>,
}

/// A function: its name, and the lines of its signature's start and of its closing brace, from 0.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    Line,
    Block(u32),
    Text,
    RawText(usize),
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let mut lexer = Lexer {
            chars: text.chars().collect(),
            at: 0,
            state: State::Code,
            code: vec![String::new()],
            comments: vec![String::new()],
        };
        while lexer.at < lexer.chars.len() {
            lexer.step();
        }
        Self { code: lexer.code, comments: lexer.comments }
    }

    /// Returns all functions that have a body.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for (first, line) in self.code.iter().enumerate() {
            for (column, _) in words(line).filter(|(_, word)| *word == "fn") {
                let rest = &line[column + 2..];
                let name = words(rest).next().filter(|(at, _)| *at == 1 && rest.starts_with(' '));
                // The text after a function-pointer type is not a name.
                let Some(name) = name else { continue };
                if let Some(last) = self.end_of_item(first, column) {
                    functions.push(Function { name: name.1.to_owned(), first, last });
                }
            }
        }
        functions
    }

    /// Returns for each line whether it belongs to an item under `#[cfg(test)]`.
    pub(crate) fn test_lines(&self) -> Vec<bool> {
        let mut test = vec![false; self.code.len()];
        for (first, line) in self.code.iter().enumerate() {
            let Some(column) = line.find("#[cfg(test)]") else { continue };
            let last = self.end_of_item(first, column + "#[cfg(test)]".len()).unwrap_or(first);
            test[first..=last].fill(true);
        }
        test
    }

    /// Returns the line of the brace that closes the first block after `column` of line `first`;
    /// `None` for an item that ends with a semicolon.
    fn end_of_item(&self, first: usize, column: usize) -> Option<usize> {
        let (mut braces, mut brackets) = (0_u32, 0_u32);
        for (number, line) in self.code.iter().enumerate().skip(first) {
            let skip = if number == first { column } else { 0 };
            for character in line[skip..].chars() {
                match character {
                    '(' | '[' => brackets += 1,
                    ')' | ']' => brackets = brackets.saturating_sub(1),
                    '{' => braces += 1,
                    '}' if braces <= 1 => return Some(number),
                    '}' => braces -= 1,
                    ';' if braces == 0 && brackets == 0 => return None,
                    _ => {}
                }
            }
        }
        None
    }
}

/// Returns the identifiers and keywords of `line` with their columns.
pub(crate) fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + line[at..].find(is_word)?;
        let length = line[start..].find(|c| !is_word(c)).unwrap_or(line.len() - start);
        at = start + length;
        Some((start, &line[start..at]))
    })
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    state: State,
    code: Vec<String>,
    comments: Vec<String>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// Consumes `count` characters as code, as comment, or as neither (blanked in both).
    fn take(&mut self, count: usize, to_code: bool, to_comment: bool) {
        for _ in 0..count.min(self.chars.len() - self.at) {
            let character = self.chars[self.at];
            self.at += 1;
            if character == '\n' {
                self.code.push(String::new());
                self.comments.push(String::new());
                continue;
            }
            let put = |lines: &mut Vec<String>, shown: bool| {
                if let Some(line) = lines.last_mut() {
                    line.push(if shown { character } else { ' ' });
                }
            };
            put(&mut self.code, to_code);
            put(&mut self.comments, to_comment);
        }
    }

    fn step(&mut self) {
        match self.state {
            State::Code => self.step_code(),
            State::Line => {
                if self.peek(0) == '\n' {
                    self.state = State::Code;
                }
                self.take(1, false, true);
            }
            State::Block(depth) => {
                let pair = (self.peek(0), self.peek(1));
                match pair {
                    ('/', '*') => self.state = State::Block(depth + 1),
                    ('*', '/') if depth == 1 => self.state = State::Code,
                    ('*', '/') => self.state = State::Block(depth - 1),
                    _ => return self.take(1, false, true),
                }
                self.take(2, false, true);
            }
            State::Text => match self.peek(0) {
                '\\' => self.take(2, false, false),
                '"' => {
                    self.state = State::Code;
                    self.take(1, true, false);
                }
                _ => self.take(1, false, false),
            },
            State::RawText(hashes) => {
                let closes = (0..hashes).all(|i| self.peek(1 + i) == '#');
                if self.peek(0) == '"' && closes {
                    self.state = State::Code;
                    self.take(1 + hashes, true, false);
                } else {
                    self.take(1, false, false);
                }
            }
        }
    }

    fn step_code(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => {
                self.state = State::Line;
                self.take(2, false, true);
            }
            ('/', '*') => {
                self.state = State::Block(1);
                self.take(2, false, true);
            }
            ('"', _) => {
                self.state = State::Text;
                self.take(1, true, false);
            }
            ('r', '"' | '#') if !self.inside_word() => self.raw_text(),
            ('\'', '\\') => {
                let length = (3..12).find(|&i| self.peek(i) == '\'').unwrap_or(2);
                self.take(length + 1, false, false);
            }
            ('\'', _) if self.peek(2) == '\'' => self.take(3, false, false),
            _ => self.take(1, true, false),
        }
    }

    /// At an `r` that may open a raw string; `r#name` is an identifier.
    fn raw_text(&mut self) {
        let hashes = (1..256).take_while(|&i| self.peek(i) == '#').count();
        if self.peek(1 + hashes) == '"' {
            self.state = State::RawText(hashes);
            self.take(2 + hashes, true, false);
        } else {
            self.take(1, true, false);
        }
    }

    /// Returns whether the character before this one belongs to a longer word (`br"…"` opens a raw
    /// string, `bar"` does not).
    fn inside_word(&self) -> bool {
        let before = |back: usize| self.at.checked_sub(back).map(|i| self.chars[i]);
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        match before(1) {
            Some('b' | 'c') => is_word(before(2)),
            other => is_word(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_not_code() {
        let source = Source::new(concat!(
            "let a = \"unsafe \\\" fn\"; // unsafe one\n",
            "let b = r#\"unsafe \" // \"#; /* unsafe /* two */\n",
            "unsafe */ let c = '\"'; let d: &'static str = b'\\'';\n",
            "let r#fn = br\"unsafe\";",
        ));
        for line in &source.code {
            assert!(!line.contains("unsafe"), "{line}");
        }
        assert!(source.comments[0].contains("unsafe one"));
        assert!(source.comments[1].contains("unsafe /* two"));
        assert!(source.comments[2].starts_with("unsafe */"));
        assert!(source.code[2].contains("&'static str = b"), "{}", source.code[2]);
        assert_eq!(source.code[3], "let r#fn = br\"      \";");
    }

    #[test]
    fn functions_have_their_lines() {
        let source = Source::new(concat!(
            "trait T { fn none(&self, a: [u8; 3]) -> fn(u8);\n",
            "    fn some() { if true { } }\n",
            "}\n",
            "fn long(\n    f: fn(u8),\n) -> [u8; 2]\n{\n    [0; 2]\n}\n",
        ));
        let found: Vec<_> =
            source.functions().into_iter().map(|f| (f.name, f.first, f.last)).collect();
        assert_eq!(found, [("some".to_owned(), 1, 1), ("long".to_owned(), 3, 8)]);
    }

    #[test]
    fn test_items_are_marked_to_their_end() {
        let source =
            Source::new("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
        assert_eq!(source.test_lines(), [false, true, true, true, true, false, false]);
        let source = Source::new("#[cfg(test)]\nmod tests;\nfn c() {}");
        assert_eq!(source.test_lines(), [true, false, false]);
    }
}
