//! The operations of a source file with their orderings, to list those that no scenario reached.

/// Names of the operations that take orderings.
const NAMES: [&str; 10] = [
    "load",
    "store",
    "swap",
    "modify",
    "compare_exchange",
    "fetch_add",
    "fetch_sub",
    "fetch_or",
    "fetch_and",
    "fence",
];

/// Orderings of which there are weaker ones.
const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// The word before the name of a function.
const KEYWORD: &str = "fn";

/// Beginning of the unit tests of a file.
const TESTS: &str = "\n#[cfg(test)]\nmod ";

/// An operation in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Line of its name, from 1.
    pub line: u32,
    /// Column of its name from 1, or of the path before it.
    pub column: u32,
    /// Function in which it is.
    pub function: String,
    /// Its name.
    pub name: &'static str,
    /// Its orderings that are not relaxed.
    pub orders: Vec<&'static str>,
}

/// Returns the atomic operations and fences in the text of a source file, without its unit tests.
pub fn operations(text: &str) -> Vec<Operation> {
    let text = text.split(TESTS).next().unwrap_or(text);
    let mut code = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        // Comments become spaces, so that places are those of the file.
        let comment = line.find("//").unwrap_or(line.len());
        code.extend(
            line.char_indices().map(|(at, c)| if at < comment || c == '\n' { c } else { ' ' }),
        );
    }
    let (mut operations, mut function) = (Vec::new(), String::new());
    let mut start = 0;
    for (number, line) in (1..).zip(code.split_inclusive('\n')) {
        let mut before = words(line).skip_while(|&(_, word)| word != KEYWORD).skip(1);
        if let Some((_, name)) = before.next() {
            name.clone_into(&mut function);
        }
        for (at, name) in words(line)
            .filter_map(|(at, word)| Some((at, NAMES.into_iter().find(|&name| name == word)?)))
        {
            let before = &line[..at];
            let path = before.trim_end_matches(|c| is_word(c) || c == ':').len();
            // A call by path is where the path is.
            let begins = if before.ends_with(':') { path } else { at };
            let called = before.ends_with('.') || begins < at;
            let arguments = arguments(&code[start + at + name.len()..]);
            if let Some(arguments) = arguments.filter(|_| called) {
                let strong = words(arguments)
                    .filter_map(|(_, word)| STRONG.into_iter().find(|&order| order == word));
                operations.push(Operation {
                    line: number,
                    column: 1 + line[..begins].chars().count() as u32,
                    function: function.clone(),
                    name,
                    orders: strong.collect(),
                });
            }
        }
        start += line.len();
    }
    operations
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the words of `text` with their offsets.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty());
    words.map(|word| (word.as_ptr().addr() - text.as_ptr().addr(), word))
}

/// Returns the arguments of a call, if `text` begins with them.
fn arguments(text: &str) -> Option<&str> {
    let text = text.strip_prefix('(')?;
    let mut depth = 1;
    let end = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    Some(&text[..end?])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
impl Lock {
    fn lock(&self) {
        // word.load(SeqCst)
        self.word
            .compare_exchange(f(0), 1, Acquire, Relaxed)
    }
    fn unlock(&self) {
        P::fence(SeqCst);
        self.word.store(0, Relaxed); load(Acquire);
    }
}

#[cfg(test)]
mod tests { fn a() { w.load(SeqCst) } }
";

    #[test]
    fn operations_have_the_place_at_which_the_compiler_puts_the_call() {
        let of = |line, column, function: &str, name, orders: &[&'static str]| Operation {
            line,
            column,
            function: function.to_owned(),
            name,
            orders: orders.to_vec(),
        };
        let expected = [
            of(5, 14, "lock", "compare_exchange", &["Acquire"]),
            of(8, 9, "unlock", "fence", &["SeqCst"]),
            of(9, 19, "unlock", "store", &[]),
        ];
        assert_eq!(operations(TEXT), expected);
    }
}
