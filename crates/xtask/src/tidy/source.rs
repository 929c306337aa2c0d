//! Rust source, which the compiler's lexer splits into code and comments.

use std::collections::BTreeMap;

use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

/// A Rust file. `code[i]` is line `i` with comments, strings and character literals blanked,
/// `comments[i]` is the comment text on line `i`; columns are kept.
pub(crate) struct Source<'a> {
    pub(crate) code: Vec<String>,
    pub(crate) comments: Vec<String>,
    pub(crate) tokens: Vec<Token<'a>>,
}

/// The Rust files of a tree, by path.
pub(crate) type Sources<'a> = BTreeMap<&'a str, Source<'a>>;

/// A token that is neither a comment nor white space. `::` and `==` are one token each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    /// From 0.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    /// Whether it belongs to an item under `#[cfg(test)]`.
    pub(crate) is_test: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier, a keyword or a number.
    Word,
    /// A string literal.
    Text,
    /// Not among the tokens of a [`Source`].
    Comment,
    Other,
}

/// Characters that are one token if they follow each other.
const PAIRS: [(&str, &str); 3] = [(":", ":"), ("=", "="), ("!", "=")];

/// The tokens of the attribute of tests.
const CFG_TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let (mut code, mut comments) = (String::new(), String::new());
        let mut tokens: Vec<Token> = Vec::new();
        let (mut start, mut line) = (0, 0);
        for token in tokenize(text, FrontmatterAllowed::No) {
            let end = start + token.len as usize;
            let piece = &text[start..end];
            let kind = kind(token.kind);
            let is_quoted = kind == Kind::Text || piece.ends_with('\'');
            code += &if kind == Kind::Comment || is_quoted { blank(piece) } else { piece.into() };
            comments += &if kind == Kind::Comment { piece.into() } else { blank(piece) };
            match tokens.last_mut() {
                _ if token.kind == TokenKind::Whitespace || kind == Kind::Comment => {}
                Some(last)
                    if text[..start].ends_with(last.text)
                        && PAIRS.contains(&(last.text, piece)) =>
                {
                    last.text = &text[start - 1..end];
                }
                _ => tokens.push(Token { text: piece, line, kind, is_test: false }),
            }
            line += piece.matches('\n').count();
            start = end;
        }
        let mut source = Self { code: lines(&code), comments: lines(&comments), tokens };
        source.mark_tests();
        source
    }

    /// Returns the number of lines. The text after the last newline is not a line.
    pub(crate) fn lines(&self) -> usize {
        self.code.len() - 1
    }

    fn mark_tests(&mut self) {
        for first in 0..self.tokens.len() {
            let attribute = self.tokens[first..].iter().map(|token| token.text);
            let opens = self.tokens[first].text == "#";
            if opens && attribute.take(CFG_TEST.len()).eq(CFG_TEST) {
                let last = self.end_of_item(first + CFG_TEST.len());
                self.tokens[first..=last].iter_mut().for_each(|token| token.is_test = true);
            }
        }
    }

    /// Returns the paths, without `.rs`, of the files that `path` declares as modules under
    /// `#[cfg(test)]`.
    fn test_modules(&self, path: &str) -> impl Iterator<Item = String> {
        let folder = ["/lib.rs", "/main.rs", "/mod.rs", ".rs"];
        let folder = folder.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
        let declared = self
            .tokens
            .windows(3)
            .filter(|window| window[0].is_test && window[0].text == "mod" && window[2].text == ";");
        declared.map(move |window| format!("{folder}/{}", window[1].text))
    }

    /// Returns the index of the token that ends the item at the token `first`: the closing brace of
    /// its first block, or its semicolon.
    fn end_of_item(&self, first: usize) -> usize {
        let (mut braces, mut brackets) = (0_u32, 0_u32);
        for (index, token) in self.tokens.iter().enumerate().skip(first) {
            match token.text {
                "(" | "[" => brackets += 1,
                ")" | "]" => brackets = brackets.saturating_sub(1),
                "{" => braces += 1,
                "}" if braces <= 1 => return index,
                "}" => braces -= 1,
                ";" if braces == 0 && brackets == 0 => return index,
                _ => {}
            }
        }
        self.tokens.len() - 1
    }
}

/// Returns the Rust files among `files`. A file that is a module under `#[cfg(test)]` is a test.
pub(crate) fn sources(files: &BTreeMap<String, String>) -> Sources<'_> {
    let rust = files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let mut sources: Sources =
        rust.map(|(path, text)| (path.as_str(), Source::new(text))).collect();
    let tests: Vec<String> = sources.iter().flat_map(|(path, it)| it.test_modules(path)).collect();
    for (path, source) in &mut sources {
        let module = path.strip_suffix(".rs").unwrap_or(path);
        if tests.iter().any(|test| module == test || module.starts_with(&format!("{test}/"))) {
            source.tokens.iter_mut().for_each(|token| token.is_test = true);
        }
    }
    sources
}

fn kind(kind: TokenKind) -> Kind {
    use LiteralKind::{Byte, Char, Float, Int};
    match kind {
        TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => Kind::Comment,
        TokenKind::Ident
        | TokenKind::RawIdent
        | TokenKind::Literal { kind: Int { .. } | Float { .. }, .. } => Kind::Word,
        TokenKind::Literal { kind, .. } if !matches!(kind, Char { .. } | Byte { .. }) => Kind::Text,
        _ => Kind::Other,
    }
}

fn blank(piece: &str) -> String {
    piece.chars().map(|character| if character == '\n' { '\n' } else { ' ' }).collect()
}

fn lines(text: &str) -> Vec<String> {
    text.split('\n').map(str::to_owned).collect()
}

pub(crate) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the identifiers and keywords of `line` with their columns.
pub(crate) fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let start = end + line[end..].find(is_word)?;
        end = line[start..].find(|letter| !is_word(letter)).map_or(line.len(), |it| start + it);
        Some((start, &line[start..end]))
    })
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
        assert!(source.code[2].contains("&'static str = "), "{}", source.code[2]);
        assert_eq!(source.code[3], "let r#fn =           ;");
    }

    #[test]
    fn test_items_are_marked_to_their_end() {
        fn tests(text: &str) -> String {
            let source = Source::new(text);
            source.tokens.iter().filter(|token| token.is_test).map(|token| token.text).collect()
        }
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        assert_eq!(tests(text), "#[cfg(test)]modtests{fnb(){}}");
        assert_eq!(tests("#[cfg(test)]\nmod tests;\nfn c() {}"), "#[cfg(test)]modtests;");
    }

    #[test]
    fn files_of_test_modules_are_tests() {
        let files = [
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod b;\nmod c;\n"),
            ("crates/a/src/b.rs", "mod inner;\n"),
            ("crates/a/src/b/inner.rs", "fn f() {}\n"),
            ("crates/a/src/c.rs", "fn f() {}\n"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let tests = sources(&files).into_values().map(|source| source.tokens[0].is_test);
        assert_eq!(tests.collect::<Vec<_>>(), [true, true, false, true]);
    }
}
