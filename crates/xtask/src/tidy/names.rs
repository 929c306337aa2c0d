//! The names that a Rust file defines, imports and uses by path.

use std::collections::BTreeSet;

use super::source::{Kind, Source, Token};

/// Keywords before the name of an item.
const ITEMS: &[&str] =
    &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules!"];

/// One name that a `use` declaration brings into scope; `*` for a glob.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) path: Vec<String>,
    pub(crate) name: String,
    /// Whether other files may import the name from this one.
    exported: bool,
    /// Whether the file uses the name itself.
    used: bool,
}

impl Use {
    /// Returns whether this file needs the name; a re-export alone does not.
    pub(crate) fn counts(&self) -> bool {
        self.used || !self.exported
    }
}

/// The names in one file, without items under `#[cfg(test)]`.
#[derive(Default)]
pub(crate) struct Names {
    /// Items outside functions and other blocks.
    pub(crate) items: BTreeSet<String>,
    pub(crate) uses: Vec<Use>,
    /// Paths of two or more names outside `use` declarations.
    pub(crate) paths: Vec<Vec<String>>,
}

impl Names {
    pub(crate) fn new(source: &Source) -> Self {
        let tokens = source.tokens.iter().filter(|token| !token.is_test).copied().collect();
        let mut reader = Reader { tokens, ..Reader::default() };
        reader.read();
        reader.names
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    /// The body of a module in this file.
    Module,
    /// A call of a macro or a block of foreign items, which may define items.
    Items,
    Other,
}

#[derive(Default)]
struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    blocks: Vec<Block>,
    /// Words outside `use` declarations.
    words: BTreeSet<&'a str>,
    names: Names,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        while self.at < self.tokens.len() {
            match self.token(0) {
                "use" if self.token(1) != "<" => self.import(),
                "{" => self.blocks.push(self.block()),
                "}" => drop(self.blocks.pop()),
                word if self.is_word(0) => self.word(word),
                _ => {}
            }
            self.at += 1;
        }
        for import in &mut self.names.uses {
            import.used = import.name != "*" && self.words.contains(import.name.as_str());
        }
    }

    /// Returns the token `ahead` of this one; empty after the last one.
    fn token(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn before(&self, back: usize) -> &'a str {
        self.at.checked_sub(back).map_or("", |index| self.tokens[index].text)
    }

    fn is_word(&self, ahead: usize) -> bool {
        self.tokens.get(self.at + ahead).is_some_and(|token| token.kind == Kind::Word)
    }

    /// Returns the kind of block that begins here.
    fn block(&self) -> Block {
        match (self.before(2), self.before(1)) {
            ("mod", _) => Block::Module,
            (_, "!" | "extern") | ("extern", _) => Block::Items,
            _ => Block::Other,
        }
    }

    /// Records the item or the path that begins at this word.
    fn word(&mut self, word: &'a str) {
        self.words.insert(word);
        let macro_rules = word == "macro_rules" && self.token(1) == "!";
        let name = self.token(1 + usize::from(macro_rules));
        let is_type = self.before(1) == "*";
        let is_file = word == "mod" && self.token(2) == ";";
        let keyword = ITEMS.contains(&word) || macro_rules;
        if keyword && !is_type && !is_file && !self.blocks.contains(&Block::Other) {
            self.names.items.insert(name.to_owned());
        }
        if self.token(1) == "::" && self.before(1) != "::" {
            let path = self.path(word);
            if path.len() > 1 {
                self.names.paths.push(path);
            }
        }
    }

    /// Returns the path that begins with `first`. Leaves the reader at its last token.
    fn path(&mut self, first: &str) -> Vec<String> {
        let mut path = vec![first.to_owned()];
        while self.token(1) == "::" && self.is_word(2) {
            self.at += 2;
            self.words.insert(self.token(0));
            path.push(self.token(0).to_owned());
        }
        self.outside_modules(&mut path);
        path
    }

    /// Makes a path in a module of this file one of the file.
    fn outside_modules(&self, path: &mut Vec<String>) {
        let depth = self.blocks.iter().filter(|block| **block == Block::Module).count();
        let above = path.iter().take(depth).take_while(|name| *name == "super").count();
        path.drain(..above);
    }

    /// Reads a `use` declaration; leaves the reader at its semicolon.
    fn import(&mut self) {
        let exported = matches!(self.before(1), "pub" | ")");
        self.at += 1;
        let first = self.names.uses.len();
        self.tree(&[]);
        let mut uses = self.names.uses.split_off(first);
        for import in &mut uses {
            import.exported = exported;
            self.outside_modules(&mut import.path);
        }
        uses.retain(|import| !import.path.is_empty());
        self.names.uses.append(&mut uses);
    }

    /// Reads one tree of a `use` declaration below `prefix`, up to the token after it.
    fn tree(&mut self, prefix: &[String]) {
        let mut path = prefix.to_vec();
        let mut name = None;
        while !matches!(self.token(0), "" | ";" | "," | "}") {
            match self.token(0) {
                "::" => {}
                "{" => {
                    while !matches!(self.token(0), "" | ";" | "}") {
                        self.at += 1;
                        self.tree(&path);
                    }
                    self.at += 1;
                    return;
                }
                "as" => {
                    name = Some(self.token(1).to_owned());
                    self.at += 1;
                }
                // The module itself.
                "self" if !path.is_empty() => {}
                word => path.push(word.to_owned()),
            }
            self.at += 1;
        }
        if path.len() > prefix.len() || !prefix.is_empty() && self.before(1) == "self" {
            let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
            self.names.uses.push(Use { path, name, exported: false, used: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Names {
        Names::new(&Source::new(text))
    }

    #[test]
    fn trees_of_uses_are_read() {
        let names = names("pub(crate) use a::{self, b as c, d::*, e::{f, g}};\nuse h::i;\n");
        let paths: Vec<String> =
            names.uses.iter().map(|u| format!("{} = {}", u.name, u.path.join("::"))).collect();
        assert_eq!(
            paths,
            ["a = a", "c = a::b", "* = a::d::*", "f = a::e::f", "g = a::e::g", "i = h::i"]
        );
        let exported: Vec<bool> = names.uses.iter().map(|u| u.exported).collect();
        assert_eq!(exported, [true, true, true, true, true, false]);
    }

    #[test]
    fn items_are_those_outside_blocks() {
        let names = names(concat!(
            "struct A<'a>(&'static Q, *const R);\nimpl A { fn b() { const C: u8 = 1; } }\n",
            "mod d { pub const E: u8 = 1; }\nmacro_rules! f { () => { fn g() {} } }\n",
            "thread_local! { static H: u8 = 1; }\nmod i;\n",
        ));
        let items: Vec<&str> = names.items.iter().map(String::as_str).collect();
        assert_eq!(items, ["A", "E", "H", "d", "f"]);
    }

    #[test]
    fn paths_in_a_module_of_the_file_begin_at_the_file() {
        let names = names("mod a { fn b() { super::c(); super::super::d(); e::f::<g::H>(); } }");
        let paths: Vec<String> = names.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["super::d", "e::f", "g::H"]);
    }
}
