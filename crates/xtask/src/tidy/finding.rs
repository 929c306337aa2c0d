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

/// Collects findings, one file after the other.
#[derive(Default)]
pub(crate) struct Findings {
    file: String,
    pub(crate) list: Vec<Finding>,
}

impl Findings {
    /// The findings that are added next are in `file`.
    pub(crate) fn begin(&mut self, file: &str) {
        file.clone_into(&mut self.file);
    }

    /// Adds a finding; `index` is the line from 0.
    pub(crate) fn add(&mut self, index: usize, rule: &'static str, cure: impl Into<String>) {
        let (file, line) = (self.file.clone(), index + 1);
        self.list.push(Finding { file, line, rule, cure: cure.into() });
    }
}

#[cfg(test)]
impl Findings {
    /// Returns the line and the rule of each finding of `check`.
    pub(crate) fn rules(check: impl FnOnce(&mut Self)) -> Vec<(usize, &'static str)> {
        let mut findings = Self::default();
        check(&mut findings);
        findings.list.iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    /// Returns the cure of each finding of `check`.
    pub(crate) fn cures(check: impl FnOnce(&mut Self)) -> Vec<String> {
        let mut findings = Self::default();
        check(&mut findings);
        findings.list.into_iter().map(|finding| finding.cure).collect()
    }
}
