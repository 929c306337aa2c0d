//! The grammar of workfiles, as AIM7's and re-aim's users have them.
//!
//! ```text
//! # a comment
//! FILESIZE: 10K        (or M, G; whole numbers; the colon may be missing)
//! POOLSIZE: 1M
//! # FILESIZE: 1M       (a size as a comment: what `--sizes 1996` reads)
//! <weight> <job>
//! <weight> <name> [<n>s] = <command>
//! ```
//!
//! Line ends may be Unix or DOS, a byte order mark is skipped, keywords are read in any case.
//! `creat-clo` (AIM7) and `creat_clo` (re-aim) are the same job, and likewise for every job name
//! with dashes. A job with weight 0 is left out. A job listed twice counts as in re-aim: its last
//! weight holds, and the sum of the weights counts every line; a note says so.
//!
//! Input that re-aim accepts is accepted with a note: a misspelt keyword of a size by its first
//! letter, a size of zero as if it were absent, and text after a size or a job name.
//!
//! A line with `=` is a custom job ([`Command`]): the shell runs the rest of the line, `#`
//! included, for at most the given number of seconds ([`TIMEOUT_S`] by default).

use crate::command::{Command, TIMEOUT_S, Written};
use crate::dialect::Dialect;
use crate::jobs::{Job, nearest_job};
use crate::mix::{JOBS_PER_USER, Mix};
use crate::sizes::{self, Sizes, Stated};
use crate::text::keyword;
use convoy_catalogue::Source;
use convoy_catalogue::suggest::distance;

/// Largest weight, so that no product overflows.
const LARGEST_WEIGHT: u64 = 1 << 30;

/// A workfile that cannot be used: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}; {cure}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct WorkfileError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1; `None` if the whole file is meant.
    pub line: Option<usize>,
    /// The problem.
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

    /// Returns an error with the text `problem; cure`.
    pub(crate) fn of(error: &impl std::fmt::Display) -> Self {
        let text = error.to_string();
        let (problem, cure) = text.split_once("; ").unwrap_or((&text, "correct the line"));
        Self::new(problem, cure)
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
        first: None,
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
    if let Some((entry, command)) = line.split_once('=').filter(|(entry, _)| !entry.contains('#')) {
        let (weight, job) = parse_command(entry.trim(), command.trim())?;
        let other = own(mix, job.name()).filter(|other| *other != job);
        if let Some(other) = other {
            let problem = format!("{} is \"{}\" already", job.name(), other.about());
            return Err(Problem::new(problem, "give one of the two another name"));
        }
        enter(mix, job, weight, index);
        return Ok(());
    }
    let line = line.split('#').next().unwrap_or_default().trim();
    if line.is_empty() {
        return Ok(());
    }
    if let Some(odd) = parse_stated(&mut mix.live, line)? {
        for odd in odd {
            note(mix, index, &odd);
        }
        return Ok(());
    }
    let mut words: Vec<&str> = line.split_whitespace().collect();
    split_weight(mix, &mut words, index);
    let &[weight, name, ..] = words.as_slice() else {
        return Err(no_entry(line));
    };
    if weight.starts_with(|first: char| first.is_alphabetic()) {
        let keyword = misspelt(weight, name).ok_or_else(|| no_entry(line))?;
        let size = line[weight.len()..].trim_start();
        let odd = parse_stated(&mut mix.live, &format!("{keyword} {size}"))?;
        note(mix, index, &format!("\"{weight}\" is taken for {keyword}: by its first letter"));
        for odd in odd.iter().flatten() {
            note(mix, index, odd);
        }
        return Ok(());
    }
    let weight = parse_weight(weight)?;
    let job = Job::parse(name).or_else(|| own(mix, name)).ok_or_else(|| unknown_job(name))?;
    if words.len() > 2 {
        note(mix, index, &format!("\"{}\" behind {name} is not read", words[2..].join(" ")));
    }
    enter(mix, job, weight, index);
    Ok(())
}

/// Splits a weight that the name of its job follows without a space, as `10add_int`.
fn split_weight(mix: &mut Mix, words: &mut Vec<&str>, index: usize) {
    let Some(&first) = words.first() else { return };
    let digits = first.find(|c: char| !c.is_ascii_digit()).unwrap_or(first.len());
    let (weight, name) = first.split_at(digits);
    if !weight.is_empty() && Job::parse(name).is_some() {
        words.splice(..1, [weight, name]);
        note(mix, index, &format!("\"{first}\" is read as \"{weight} {name}\""));
    }
}

/// The keyword of a size that `word` is for re-aim, if `size` is one.
fn misspelt(word: &str, size: &str) -> Option<&'static str> {
    let first = word.chars().next()?.to_ascii_uppercase();
    sizes::parse_first(size).ok()?;
    ["FILESIZE", "POOLSIZE"].into_iter().find(|keyword| keyword.starts_with(first))
}

/// Notes what re-aim does with a line.
fn note(mix: &mut Mix, index: usize, what: &str) {
    let note = format!("{}:{}: {what}, as in re-aim", mix.name, index + 1);
    mix.notes.push(note);
}

/// The command of `mix` that is called `name`.
fn own(mix: &Mix, name: &str) -> Option<Job> {
    let commands = || mix.weights.iter().map(|(job, _)| *job);
    commands().find(|job| matches!(job, Job::Command(own) if own.name() == name))
}

/// Reads `<weight> <name> [<n>s]` before a `=`.
fn parse_command(entry: &str, command: &str) -> Result<(u32, Job), Problem> {
    let mut words = entry.split_whitespace();
    let (Some(weight), Some(name), timeout, None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Problem::new(
            format!("\"{entry} =\" begins no command"),
            "write \"<weight> <name> = <command>\" or \"<weight> <name> <n>s = <command>\"",
        ));
    };
    let seconds = |text: &str| text.strip_suffix('s')?.parse().ok();
    let timeout_s = timeout.map_or(Ok(TIMEOUT_S), |text| {
        seconds(text).ok_or_else(|| {
            Problem::new(format!("\"{text}\" is not a time"), "write seconds such as 30s")
        })
    })?;
    let written = Written { name: name.to_owned(), command: command.to_owned(), timeout_s };
    let own = Command::new(written).map_err(|error| Problem::of(&error))?;
    Ok((parse_weight(weight)?, Job::Command(own)))
}

/// Adds a line to `mix`; the last one of a job holds.
fn enter(mix: &mut Mix, job: Job, weight: u32, index: usize) {
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
}

fn parse_weight(text: &str) -> Result<u32, Problem> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let weight = text.parse::<u64>().ok().filter(|weight| digits && *weight <= LARGEST_WEIGHT);
    weight.map(|weight| weight as u32).ok_or_else(|| {
        Problem::new(
            format!("\"{text}\" is not a weight"),
            format!("give a whole number from 0 to {LARGEST_WEIGHT}"),
        )
    })
}

/// Reads `line` into `stated`; returns a note if re-aim interprets it unexpectedly. `None` if it is
/// not a size.
fn parse_stated(stated: &mut Stated, line: &str) -> Result<Option<Vec<String>>, Problem> {
    let (target, name, text) = if let Some(size) = keyword(line, "FILESIZE") {
        (&mut stated.file_kb, "FILESIZE", size)
    } else if let Some(size) = keyword(line, "POOLSIZE") {
        (&mut stated.pool_kb, "POOLSIZE", size)
    } else {
        return Ok(None);
    };
    let (kb, mut odd) = parse_size(name, text)?;
    *target = Some(kb).filter(|kb| *kb > 0);
    if kb == 0 {
        odd.push(format!("{name} of zero states no size"));
    }
    Ok(Some(odd))
}

/// Returns the size `text` of `name`, in KB, and the ignored part of the text; fails with a problem
/// of a line if it is not a size.
pub(crate) fn parse_size(name: &str, text: &str) -> Result<(u64, Vec<String>), Problem> {
    let (kb, rest) = sizes::parse_first(text).map_err(|error| Problem::of(&error))?;
    let unread = || format!("\"{rest}\" behind the size of {name} is not read");
    Ok((kb, (!rest.is_empty()).then(unread).into_iter().collect()))
}

fn no_entry(line: &str) -> Problem {
    let first: String = line.chars().take_while(|letter| letter.is_alphanumeric()).collect();
    let meant = ["FILESIZE", "POOLSIZE"]
        .into_iter()
        .find(|keyword| distance(&first.to_ascii_uppercase(), keyword) <= 2);
    let hint = meant.map_or_else(String::new, |keyword| format!("did you mean {keyword}:? "));
    Problem::new(
        format!("\"{line}\" is not an entry"),
        format!("{hint}write \"<weight> <job>\", \"FILESIZE: <n>K\" or \"POOLSIZE: <n>M\""),
    )
}

fn unknown_job(name: &str) -> Problem {
    if name.starts_with("aim_") {
        return Problem::new(
            format!("{name} has no command"),
            format!("AIM7 leaves it to you: write \"<weight> {name} = <command>\""),
        );
    }
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
    fn a_weight_needs_no_space_behind_it() {
        let mix = parse("w", "FILESIZE: 1K\n10add_int\n").expect("valid");
        assert_eq!(mix.weights, [(Job::AddInt, 10)]);
        let note = "w:2: \"10add_int\" is read as \"10 add_int\", as in re-aim";
        assert_eq!(mix.notes, [note]);
        assert!(error("10nothing\n").contains("10nothing"));
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
    fn what_reaim_takes_is_taken_and_named() {
        let text = "FILSIZE: 1MB\npolsize 5k\n10 add_int 3 x\nPOOLSIZE: 0k\n";
        let mix = parse("my.mix", text).expect("valid");
        assert_eq!(mix.live, Stated { file_kb: Some(1024), pool_kb: None });
        assert_eq!(mix.sizes, Sizes { file_kb: 1024, pool_kb: Sizes::REAIM.pool_kb });
        assert_eq!(mix.weights, [(Job::AddInt, 10)]);
        let expected = [
            "my.mix:1: \"FILSIZE:\" is taken for FILESIZE: by its first letter, as in re-aim",
            "my.mix:1: \"B\" behind the size of FILESIZE is not read, as in re-aim",
            "my.mix:2: \"polsize\" is taken for POOLSIZE: by its first letter, as in re-aim",
            "my.mix:3: \"3 x\" behind add_int is not read, as in re-aim",
            "my.mix:4: POOLSIZE of zero states no size, as in re-aim",
        ];
        assert_eq!(mix.notes, expected);
    }

    #[test]
    fn a_command_is_a_job() {
        let text = "5 aim_1 30s = ./mine -n 3 # for the shell\n5 add_int # a = b\n2 two=true\n";
        let mix = parse("my.mix", text).expect("valid");
        let [(Job::Command(first), 5), (Job::AddInt, 5), (Job::Command(second), 2)] =
            mix.weights[..]
        else {
            panic!("{:?}", mix.weights);
        };
        assert_eq!((first.name(), first.line()), ("aim_1", "./mine -n 3 # for the shell"));
        assert_eq!((first.timeout_s(), second.timeout_s()), (30, TIMEOUT_S));
        let again = parse("my.mix", "5 a = true\n7 a\n").expect("valid");
        assert_eq!((again.weights[0].1, again.overridden), (7, 5));
    }

    #[test]
    fn errors_of_commands_name_line_and_cure() {
        for (text, expected) in [
            ("= true", "my.mix:1: \" =\" begins no command; write \"<weight> <name> = "),
            ("\n1 a 2s b = true", "my.mix:2: \"1 a 2s b =\" begins no command; write"),
            ("1 a 2 = true", "my.mix:1: \"2\" is not a time; write seconds such as 30s"),
            ("1 a 0s = true", "my.mix:1: a may take 0 s; give it 1 to 86400 s"),
            ("1 sieve = true", "my.mix:1: sieve is a job of AIM7; give your command another"),
            ("1 a/b = true", "my.mix:1: \"a/b\" is no name for a job; use at most 32"),
            ("1 a =", "my.mix:1: a has no command; write one after the ="),
            ("x a = true", "my.mix:1: \"x\" is not a weight; give a whole number"),
            ("1 a = true\n1 a = false", "my.mix:2: a is \"true\" already; give one of the two"),
            ("1 aim_2", "my.mix:1: aim_2 has no command; AIM7 leaves it to you: write \"<weight> "),
        ] {
            assert!(error(text).starts_with(expected), "{}", error(text));
        }
    }

    #[test]
    fn errors_name_file_line_and_cure() {
        let text = error("10 add_int\n10 ad_long\n");
        assert!(text.starts_with("my.mix:2: no job called \"ad_long\"; did you mean add_long?"));
        assert!(
            error("ten add_int").starts_with("my.mix:1: \"ten add_int\" is not an entry; write")
        );
        assert!(error("-1 add_int").contains("\"-1\" is not a weight; give"));
        assert!(error("+1 add_int").contains("\"+1\" is not a weight; give"));
        assert!(error("1.5 add_int").contains("\"1.5\" is not a weight; give"));
        assert!(error("9999999999 add_int").contains("is not a weight; give"));
        assert!(error("FILSIZE: 1").contains("did you mean FILESIZE:? "));
        assert!(error("FILESIZE: 10").contains("\"10\" is not a size; write a whole number"));
        assert!(error("FILESIZE: 99999999999M").contains("is not a size; write"));
        assert!(error("FILESIZE:").contains("\"\" is not a size"));
        assert!(error("FILESIZE: é").contains("is not a size"));
        assert!(error("# nothing\n").starts_with("my.mix: no job; add lines"));
        assert!(error("0 add_int\n").contains("no job"));
    }
}
