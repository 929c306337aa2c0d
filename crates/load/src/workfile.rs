//! The grammar of workfiles, as AIM7 and re-aim read it.
//!
//! ```text
//! # a comment
//! FILESIZE: 10K        (or M; whole numbers)
//! POOLSIZE: 1M
//! <weight> <job>
//! ```
//!
//! `creat-clo` (AIM7) and `creat_clo` (re-aim) are the same job. A job with weight 0 is left out. A
//! job listed twice is an error here: re-aim adds its weight to the sum twice but runs it by the
//! last one.

use crate::jobs::Job;
use crate::mix::{DEFAULT_FILE_KB, DEFAULT_POOL_KB, Mix};

/// Largest weight and largest size (KB), so that no product overflows.
const LARGEST: u64 = 1 << 30;

/// A workfile that cannot be used: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}; {cure}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct WorkfileError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1; `None` if the whole file is meant.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub cure: String,
}

/// A problem of one line, before it gets its place.
struct Problem(String, String);

impl Problem {
    fn new(problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self(problem.into(), cure.into())
    }
}

/// Parses `text`, the content of the workfile called `file`.
///
/// # Errors
/// [`WorkfileError`] for the first line that is wrong.
pub fn parse(file: &str, text: &str) -> Result<Mix, WorkfileError> {
    let mut mix = Mix {
        name: file.to_owned(),
        file_kb: DEFAULT_FILE_KB,
        pool_kb: DEFAULT_POOL_KB,
        weights: Vec::new(),
    };
    for (index, line) in text.lines().enumerate() {
        parse_line(&mut mix, line).map_err(|Problem(problem, cure)| WorkfileError {
            file: file.to_owned(),
            line: Some(index + 1),
            problem,
            cure,
        })?;
    }
    if mix.weights.is_empty() {
        return Err(WorkfileError {
            file: file.to_owned(),
            line: None,
            problem: "no job".into(),
            cure: "add lines of the form \"<weight> <job>\", for example \"10 add_int\"".into(),
        });
    }
    Ok(mix)
}

fn parse_line(mix: &mut Mix, line: &str) -> Result<(), Problem> {
    let line = line.split('#').next().unwrap_or_default().trim();
    if line.is_empty() {
        return Ok(());
    }
    if let Some(size) = keyword(line, "FILESIZE:") {
        mix.file_kb = parse_size(size)?;
        return Ok(());
    }
    if let Some(size) = keyword(line, "POOLSIZE:") {
        mix.pool_kb = parse_size(size)?;
        return Ok(());
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let [weight, name] = words[..] else {
        return Err(Problem::new(
            format!("\"{line}\" is no entry"),
            "write \"<weight> <job>\", \"FILESIZE: <n>K\" or \"POOLSIZE: <n>M\"",
        ));
    };
    let weight =
        weight.parse::<u64>().ok().filter(|weight| *weight <= LARGEST).ok_or_else(|| {
            Problem::new(
                format!("\"{weight}\" is no weight"),
                format!("give a whole number from 0 to {LARGEST}"),
            )
        })? as u32;
    let job = Job::parse(name).ok_or_else(|| unknown_job(name))?;
    if mix.weights.iter().any(|(other, _)| *other == job) {
        return Err(Problem::new(
            format!("{} is listed twice", job.name()),
            "keep one line for it, with the sum of the weights",
        ));
    }
    if weight > 0 {
        mix.weights.push((job, weight));
    }
    Ok(())
}

/// The rest of `line` if it begins with `keyword`, in any case.
fn keyword<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let head = line.get(..keyword.len())?;
    head.eq_ignore_ascii_case(keyword).then(|| line[keyword.len()..].trim())
}

/// A size such as `10K` or `1M`, in KB.
fn parse_size(text: &str) -> Result<u64, Problem> {
    let cure = "write a whole number followed by K or M, for example 10K";
    let unit = text.chars().last().ok_or_else(|| Problem::new("no size", cure))?;
    let factor = match unit {
        'k' | 'K' => 1,
        'm' | 'M' => 1024,
        _ => return Err(Problem::new(format!("\"{text}\" is no size"), cure)),
    };
    text[..text.len() - 1]
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|kb| *kb <= LARGEST)
        .ok_or_else(|| Problem::new(format!("\"{text}\" is no size up to 1 TB"), cure))
}

fn unknown_job(name: &str) -> Problem {
    let nearest = Job::ALL.iter().min_by_key(|job| distance(name, job.name()));
    let hint = nearest
        .filter(|job| distance(name, job.name()) <= 2)
        .map_or_else(String::new, |job| format!("did you mean {}? ", job.name()));
    let known: Vec<&str> = Job::ALL.iter().map(|job| job.name()).collect();
    Problem::new(format!("no job called \"{name}\""), format!("{hint}jobs: {}", known.join(" ")))
}

/// Edit distance (insertions, deletions, substitutions).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let error = parse("my.mix", text).expect_err("must be rejected").to_string();
        assert!(!error.contains('\n'), "one line: {error}");
        error
    }

    #[test]
    fn the_grammar_of_both_peers_is_read() {
        let text =
            "# mix\nFILESIZE: 100K\npoolsize:250M\n\n30 add_int\n5\tcreat-clo # old\n0 sieve\n";
        let mix = parse("my.mix", text).expect("valid");
        assert_eq!((mix.file_kb, mix.pool_kb), (100, 250 * 1024));
        assert_eq!(mix.weights, [(Job::AddInt, 30), (Job::CreatClo, 5)]);
        let both = parse("my.mix", "5 creat_clo\n").expect("valid");
        assert_eq!(both.weights, [(Job::CreatClo, 5)]);
    }

    #[test]
    fn sizes_default_to_those_of_re_aim() {
        let mix = parse("my.mix", "1 add_int").expect("valid");
        assert_eq!((mix.file_kb, mix.pool_kb), (10, 1024));
    }

    #[test]
    fn errors_name_file_line_and_cure() {
        let text = error("10 add_int\n10 ad_long\n");
        assert!(text.starts_with("my.mix:2: no job called \"ad_long\"; did you mean add_long?"));
        assert!(error("ten add_int").starts_with("my.mix:1: \"ten\" is no weight; give"));
        assert!(error("-1 add_int").contains("is no weight"));
        assert!(error("10 add_int 3").contains("is no entry; write"));
        assert!(error("FILESIZE: 10").contains("\"10\" is no size; write a whole number"));
        assert!(error("FILESIZE: 99999999999M").contains("is no size up to"));
        assert!(error("FILESIZE:").contains("no size"));
        assert!(error("FILESIZE: é").contains("is no size"));
        assert!(error("1 add_int\n2 add_int").starts_with("my.mix:2: add_int is listed twice"));
        assert!(error("# nothing\n").starts_with("my.mix: no job; add lines"));
        assert!(error("0 add_int\n").contains("no job"));
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("sieve", "sieve"), 0);
        assert_eq!(distance("seive", "sieve"), 2);
        assert_eq!(distance("", "abc"), 3);
    }
}
