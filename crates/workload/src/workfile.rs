//! The grammar of workfiles, as AIM7's and re-aim's users have them.
//!
//! ```text
//! # a comment
//! FILESIZE: 10K        (or M, G; whole numbers; the colon may be missing)
//! POOLSIZE: 1M
//! # FILESIZE: 1M       (a size as a comment: what `--sizes 1996` reads)
//! <weight> <job>
//! ```
//!
//! Line ends are those of Unix or of DOS, a byte order mark is skipped, keywords are read in any
//! case. `creat-clo` (AIM7) and `creat_clo` (re-aim) are the same job, and so for every job whose
//! name is written with dashes. A job with weight 0 is left out. A job listed twice counts as in
//! re-aim: its last weight holds, and the sum of the weights counts every line; a note says so.

use crate::dialect::Dialect;
use crate::jobs::{Job, nearest_job};
use crate::mix::{JOBS_PER_USER, Mix};
use crate::sizes::{self, Sizes, Stated};
use crate::text::keyword;
use convoy_catalogue::Source;
use convoy_catalogue::suggest::distance;

/// Largest weight, so that no product overflows.
const LARGEST_WEIGHT: u64 = 1 << 30;

/// A workfile or `reaim.config` that cannot be used: where, what, and what to do.
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
pub(crate) struct Problem(String, String);

impl Problem {
    pub(crate) fn new(problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self(problem.into(), cure.into())
    }

    /// The problem in line `index` (from 0) of `file`.
    pub(crate) fn at(self, file: &str, index: usize) -> WorkfileError {
        let Self(problem, cure) = self;
        WorkfileError { file: file.to_owned(), line: Some(index + 1), problem, cure }
    }
}

/// Parses `text`, the content of the workfile called `file`.
///
/// # Errors
/// [`WorkfileError`] for the first line that is wrong.
pub fn parse(file: &str, text: &str) -> Result<Mix, WorkfileError> {
    let mut mix = Mix {
        name: file.to_owned(),
        source: Source::of_text(file, text),
        dialect: Dialect::default(),
        sizes: Sizes::REAIM,
        live: Stated::default(),
        commented: Stated::default(),
        jobs: JOBS_PER_USER,
        weights: Vec::new(),
        overridden: 0,
        notes: Vec::new(),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        parse_line(&mut mix, line, index).map_err(|problem| problem.at(file, index))?;
    }
    mix.weights.retain(|(_, weight)| *weight > 0);
    mix.sizes = mix.live.or_default();
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

fn parse_line(mix: &mut Mix, line: &str, index: usize) -> Result<(), Problem> {
    if let Some(comment) = line.trim_start().strip_prefix('#') {
        // A comment that only looks like a size is a comment.
        let _no_size = parse_stated(&mut mix.commented, comment.trim_start_matches('#').trim());
        return Ok(());
    }
    let line = line.split('#').next().unwrap_or_default().trim();
    if line.is_empty() || parse_stated(&mut mix.live, line)? {
        return Ok(());
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let [weight, name] = words[..] else {
        return Err(no_entry(line));
    };
    let Some(weight) = parse_weight(weight) else {
        return Err(if weight.starts_with(|first: char| first.is_alphabetic()) {
            no_entry(line)
        } else {
            Problem::new(
                format!("\"{weight}\" is no weight"),
                format!("give a whole number from 0 to {LARGEST_WEIGHT}"),
            )
        });
    };
    let job = Job::parse(name).ok_or_else(|| unknown_job(name))?;
    if let Some((_, before)) = mix.weights.iter_mut().find(|(other, _)| *other == job) {
        mix.notes.push(format!(
            "{}:{}: {} is listed again; as in re-aim the sum counts both lines and the last \
             weight, {weight}, holds",
            mix.name,
            index + 1,
            job.name()
        ));
        mix.overridden += u64::from(std::mem::replace(before, weight));
    } else {
        mix.weights.push((job, weight));
    }
    Ok(())
}

fn parse_weight(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let weight = text.parse::<u64>().ok().filter(|weight| digits && *weight <= LARGEST_WEIGHT);
    weight.map(|weight| weight as u32)
}

/// Reads `line` into `stated` if it is a size; whether it is.
pub(crate) fn parse_stated(stated: &mut Stated, line: &str) -> Result<bool, Problem> {
    let (target, size) = if let Some(size) = keyword(line, "FILESIZE") {
        (&mut stated.file_kb, size)
    } else if let Some(size) = keyword(line, "POOLSIZE") {
        (&mut stated.pool_kb, size)
    } else {
        return Ok(false);
    };
    *target = Some(parse_size(size)?);
    Ok(true)
}

/// A size, as a problem of a line if it is none.
pub(crate) fn parse_size(text: &str) -> Result<u64, Problem> {
    sizes::parse(text).map_err(|error| {
        let text = error.to_string();
        let (problem, cure) = text.split_once("; ").unwrap_or((&text, "write one such as 10K"));
        Problem::new(problem, cure)
    })
}

fn no_entry(line: &str) -> Problem {
    let first: String = line.chars().take_while(|letter| letter.is_alphanumeric()).collect();
    let meant = ["FILESIZE", "POOLSIZE"]
        .into_iter()
        .find(|keyword| distance(&first.to_ascii_uppercase(), keyword) <= 2);
    let hint = meant.map_or_else(String::new, |keyword| format!("did you mean {keyword}:? "));
    Problem::new(
        format!("\"{line}\" is no entry"),
        format!("{hint}write \"<weight> <job>\", \"FILESIZE: <n>K\" or \"POOLSIZE: <n>M\""),
    )
}

fn unknown_job(name: &str) -> Problem {
    let hint =
        nearest_job(name).map_or_else(String::new, |job| format!("did you mean {}? ", job.name()));
    let known: Vec<&str> = Job::ALL.iter().map(|job| job.name()).collect();
    Problem::new(format!("no job called \"{name}\""), format!("{hint}jobs: {}", known.join(" ")))
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
        let text = "\u{feff}# mix\r\nFILESIZE: 100K\r\npoolsize:250M\r\n\r\n30 add_int\r\n\
                    5\tcreat-clo # old\n0 sieve\n";
        let mix = parse("my.mix", text).expect("valid");
        assert_eq!(mix.sizes, Sizes { file_kb: 100, pool_kb: 250 * 1024 });
        assert_eq!(mix.weights, [(Job::AddInt, 30), (Job::CreatClo, 5)]);
        assert!(mix.notes.is_empty());
        let both = parse("my.mix", "5 creat_clo\n").expect("valid");
        assert_eq!(both.weights, [(Job::CreatClo, 5)]);
        let bare = parse("my.mix", "FILESIZE 1M\n1 disk-rd\n").expect("valid");
        assert_eq!((bare.live.file_kb, bare.weights[0].0), (Some(1024), Job::DiskRd));
    }

    #[test]
    fn sizes_in_comments_are_remembered_not_used() {
        let mix = parse("my.mix", "# FILESIZE: 1M\n#POOLSIZE: 10M\n1 add_int").expect("valid");
        assert_eq!(mix.sizes, Sizes::REAIM);
        assert_eq!(mix.commented, Stated { file_kb: Some(1024), pool_kb: Some(10_240) });
        let prose = parse("my.mix", "# filesize: see below\n1 add_int").expect("a comment");
        assert!(prose.commented.is_empty());
    }

    #[test]
    fn the_last_of_two_lines_holds_and_both_are_summed() {
        let mix = parse("my.mix", "20 add_int\n70 sieve\n10 add_int\n").expect("valid");
        assert_eq!(mix.weights, [(Job::AddInt, 10), (Job::Sieve, 70)]);
        assert_eq!(mix.overridden, 20);
        assert!(mix.notes[0].starts_with("my.mix:3: add_int is listed again"), "{:?}", mix.notes);
        // 10, 70 and 20 of 100: the 20 runs of the first line are nobody's.
        assert_eq!(mix.jobs_per_user(), 80);
        let dropped = parse("my.mix", "20 add_int\n70 sieve\n0 add_int\n").expect("valid");
        assert_eq!(dropped.counts(), [(Job::Sieve, 78)]);
    }

    #[test]
    fn errors_name_file_line_and_cure() {
        let text = error("10 add_int\n10 ad_long\n");
        assert!(text.starts_with("my.mix:2: no job called \"ad_long\"; did you mean add_long?"));
        assert!(error("ten add_int").starts_with("my.mix:1: \"ten add_int\" is no entry; write"));
        assert!(error("-1 add_int").contains("\"-1\" is no weight; give"));
        assert!(error("+1 add_int").contains("\"+1\" is no weight; give"));
        assert!(error("1.5 add_int").contains("\"1.5\" is no weight; give"));
        assert!(error("9999999999 add_int").contains("is no weight; give"));
        assert!(error("10 add_int 3").contains("is no entry; write"));
        assert!(error("FILSIZE: 1M").contains("did you mean FILESIZE:? "));
        assert!(error("FILESIZE: 10").contains("\"10\" is no size; write a whole number"));
        assert!(error("FILESIZE: 99999999999M").contains("is no size; write"));
        assert!(error("FILESIZE:").contains("\"\" is no size"));
        assert!(error("FILESIZE: é").contains("is no size"));
        assert!(error("# nothing\n").starts_with("my.mix: no job; add lines"));
        assert!(error("0 add_int\n").contains("no job"));
    }
}
