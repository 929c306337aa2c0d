//! Findings of the rules.

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) file: String,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) cure: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.rule, self.cure)
    }
}

/// Collects the findings of one file.
pub(crate) struct Findings<'a> {
    file: &'a str,
    pub(crate) list: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(crate) fn new(file: &'a str) -> Self {
        Self { file, list: Vec::new() }
    }

    /// Adds a finding; `index` is the line from 0.
    pub(crate) fn add(&mut self, index: usize, rule: &'static str, cure: impl Into<String>) {
        let (file, line) = (self.file.to_owned(), index + 1);
        self.list.push(Finding { file, line, rule, cure: cure.into() });
    }
}
