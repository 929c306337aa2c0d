//! The grammars of `reaim.config` and of AIM7's `config`.
//!
//! ```text
//! # a comment
//! FILESIZE 10k
//! POOLSIZE 1m
//! DISKDIR /tmp/diskdir      (once for each directory)
//! STARTUSERS 1
//! ENDUSERS 5
//! INCREMENT 1
//! JOBS 100
//! VERBOSE 1
//! CROSSOVER
//! BRIEF
//! ```
//!
//! AIM7's `config` is a list of directories, the first word of each line; a line that begins with #
//! is a comment, and OFF in the first place means the current directory. A file with a first line
//! that starts with a path or OFF is recognised as such: re-aim's keys do not contain a slash.
//!
//! ```text
//! # a comment
//! /disk1/aim7
//! /disk2/aim7
//! ```
//!
//! As in re-aim the first letter of a key decides which one it is, in any case; a colon or an
//! equals sign may follow it. A key that is not a prefix of the matched key gets a note, and so
//! does a line with none of the letters or with a space before the key, which is skipped, as in
//! re-aim. Unlike there, a value that makes no sense is an error.

use crate::mix::MOST_JOBS_PER_USER;
use crate::sizes::Stated;
use crate::workfile::{Problem, WorkfileError, parse_size};
use convoy_catalogue::read;
use convoy_catalogue::suggest::hint;
use std::path::Path;

/// Most directories; re-aim's limit.
pub const MOST_DIRECTORIES: usize = 255;
/// Most users that a configuration may name.
const MOST_USERS: u64 = 1_000_000;

/// The contents of a `reaim.config`; missing values are `None`, empty or false.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaimConfig {
    /// FILESIZE and POOLSIZE.
    pub sizes: Stated,
    /// DISKDIR: the work directories, in their order.
    pub directories: Vec<String>,
    /// STARTUSERS.
    pub start_users: Option<u32>,
    /// ENDUSERS.
    pub end_users: Option<u32>,
    /// INCREMENT.
    pub increment: Option<u32>,
    /// JOBS: jobs per user before rounding.
    pub jobs: Option<u32>,
    /// VERBOSE.
    pub verbose: bool,
    /// CROSSOVER: run until jobs/min/task falls to the limit.
    pub crossover: bool,
    /// BRIEF.
    pub brief: bool,
    /// Notes on misleading lines, each with file and line.
    pub notes: Vec<String>,
}

/// The keys; their first letters differ.
const KEYS: [&str; 10] = [
    "FILESIZE",
    "POOLSIZE",
    "DISKDIR",
    "STARTUSERS",
    "ENDUSERS",
    "INCREMENT",
    "JOBS",
    "VERBOSE",
    "CROSSOVER",
    "BRIEF",
];

impl ReaimConfig {
    /// Parses `text`, the content of the file called `file`.
    ///
    /// # Errors
    /// [`WorkfileError`] for the first line that is wrong.
    pub fn parse(file: &str, text: &str) -> Result<Self, WorkfileError> {
        let mut config = Self::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if let Some(directories) = directories(text) {
            for (index, directory) in directories {
                config.add_directory(directory).map_err(|problem| problem.at(file, index))?;
            }
            return Ok(config);
        }
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            if line.starts_with([' ', '\t']) && !line.trim().is_empty() {
                let note = "begins with a space: skipped as in re-aim";
                config.notes.push(format!("{file}:{}: {note}", index + 1));
                continue;
            }
            let line = line.trim();
            if !line.is_empty() {
                let notes = config.parse_line(line).map_err(|problem| problem.at(file, index))?;
                let at = |note: String| format!("{file}:{}: {note}", index + 1);
                config.notes.extend(notes.into_iter().map(at));
            }
        }
        if let (Some(start), Some(end)) = (config.start_users, config.end_users)
            && start > end
        {
            return Err(WorkfileError {
                file: file.to_owned(),
                line: None,
                problem: format!("STARTUSERS {start} is above ENDUSERS {end}"),
                cure: "exchange them".into(),
            });
        }
        Ok(config)
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`WorkfileError`] if it cannot be read or a line is wrong.
    pub fn load(path: &str) -> Result<Self, WorkfileError> {
        let bytes = read::bytes(Path::new(path)).map_err(|error| WorkfileError {
            file: path.to_owned(),
            line: None,
            problem: format!("cannot be read ({error})"),
            cure: "name a readable reaim.config".into(),
        })?;
        Self::parse(path, &String::from_utf8_lossy(&bytes))
    }

    /// Parses a line; returns notes if re-aim interprets it unexpectedly.
    fn parse_line(&mut self, line: &str) -> Result<Vec<String>, Problem> {
        let end = line.find([':', '=', ' ', '\t']).unwrap_or(line.len());
        let (written, rest) = line.split_at(end);
        let value = rest.trim_start().trim_start_matches([':', '=']).trim();
        let upper = written.to_ascii_uppercase();
        let first = |text: &str| text.bytes().next();
        let Some(key) = KEYS.into_iter().find(|key| first(key) == first(&upper)) else {
            let hint = hint(&upper, KEYS.into_iter());
            return Ok(vec![format!("no key called \"{written}\"; skipped as in re-aim{hint}")]);
        };
        let mut odd = Vec::new();
        let number = |least, most| number(key, value, least, most);
        let users = |least| number(least, MOST_USERS).map(Some);
        match key {
            // Zero is a size here, in a workfile it is none: as in re-aim.
            "FILESIZE" => self.sizes.file_kb = Some(size(key, value, &mut odd)?),
            "POOLSIZE" => self.sizes.pool_kb = Some(size(key, value, &mut odd)?),
            "DISKDIR" => self.add_directory(value)?,
            "STARTUSERS" => self.start_users = users(1)?,
            "ENDUSERS" => self.end_users = users(1)?,
            "INCREMENT" => self.increment = users(1)?,
            "JOBS" => self.jobs = number(1, u64::from(MOST_JOBS_PER_USER)).map(Some)?,
            "VERBOSE" => self.verbose = switch(key, value)?,
            "CROSSOVER" => self.crossover = switch(key, value)?,
            _ => self.brief = switch(key, value)?,
        }
        if !key.starts_with(&upper) {
            let note = "as in re-aim its first letter decides";
            odd.insert(0, format!("\"{written}\" is taken for {key}: {note}"));
        }
        Ok(odd)
    }

    fn add_directory(&mut self, path: &str) -> Result<(), Problem> {
        if path.is_empty() {
            return Err(Problem::new("DISKDIR names no directory", "write DISKDIR <path>"));
        }
        if self.directories.len() == MOST_DIRECTORIES {
            return Err(Problem::new(
                format!("more than {MOST_DIRECTORIES} directories"),
                "remove DISKDIR lines",
            ));
        }
        self.directories.push(path.to_owned());
        Ok(())
    }
}

/// The directories, and their lines, of a file that is AIM7's `config`.
fn directories(text: &str) -> Option<Vec<(usize, &str)>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let words = lines.filter_map(|(index, line)| Some((index, line.split_whitespace().next()?)));
    let found: Vec<(usize, &str)> = words.collect();
    let (index, first) = *found.first()?;
    if first == "OFF" {
        return Some(vec![(index, ".")]);
    }
    let key = first.split([':', '=']).next()?;
    (key.contains('/') || key.starts_with('.')).then_some(found)
}

/// Returns the size `value` of `key`, in KB; the ignored part is added to `odd`.
fn size(key: &str, value: &str, odd: &mut Vec<String>) -> Result<u64, Problem> {
    let (kb, unread) = parse_size(key, value)?;
    odd.extend(unread.into_iter().map(|unread| unread + ", as in re-aim"));
    Ok(kb)
}

fn number(key: &str, value: &str, least: u64, most: u64) -> Result<u32, Problem> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse::<u64>().ok().filter(|_| digits);
    number.filter(|number| (least..=most).contains(number)).map(|number| number as u32).ok_or_else(
        || {
            Problem::new(
                format!("\"{value}\" is not a valid {key}"),
                format!("give a whole number from {least} to {most}"),
            )
        },
    )
}

/// A key that is on by being there, unless its value says no.
fn switch(key: &str, value: &str) -> Result<bool, Problem> {
    match value.to_ascii_lowercase().as_str() {
        "" | "1" | "y" | "yes" | "on" | "true" => Ok(true),
        "0" | "n" | "no" | "off" | "false" => Ok(false),
        // VERBOSE has levels; re-aim runs to the crossover for a one only.
        level if level.bytes().all(|byte| byte.is_ascii_digit()) => Ok(key != "CROSSOVER"),
        _ => Err(Problem::new(
            format!("\"{value}\" is not a valid {key}"),
            "write 1 or 0, or nothing",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_of_zero_is_one_and_only_the_first_letter_of_a_unit_is_read() {
        let config = ReaimConfig::parse("c", "FILESIZE 100kb\nPOOLSIZE 0k\n").expect("valid");
        assert_eq!((config.sizes.file_kb, config.sizes.pool_kb), (Some(100), Some(0)));
        assert_eq!(config.sizes.or_default().of_user(1), 100);
        let unread = "c:1: \"b\" behind the size of FILESIZE is not read, as in re-aim";
        assert_eq!(config.notes, [unread]);
    }

    #[test]
    fn a_line_with_a_space_before_its_key_is_skipped() {
        let text = "JOBS 50\n  JOBS 60\n\tENDUSERS 9\n   \n # a comment\n";
        let config = ReaimConfig::parse("c", text).expect("valid");
        assert_eq!((config.jobs, config.end_users), (Some(50), None));
        let skipped = |line| format!("c:{line}: begins with a space: skipped as in re-aim");
        assert_eq!(config.notes, [skipped(2), skipped(3)]);
    }

    #[test]
    fn the_config_of_aim7_is_a_list_of_directories() {
        let of = |text: &str| ReaimConfig::parse("config", text).expect("valid").directories;
        assert_eq!(of("# disks\n/disk1/a  first\n\n/disk2\n"), ["/disk1/a", "/disk2"]);
        assert_eq!(of("./here\nthere\n"), ["./here", "there"]);
        assert_eq!(of("#\nOFF\n/disk1\n"), ["."]);
        assert_eq!(of("DISKDIR=/disk1\n"), ["/disk1"], "re-aim's");
        let many = "/d\n".repeat(MOST_DIRECTORIES + 1);
        let error = ReaimConfig::parse("config", &many).expect_err("too many").to_string();
        assert!(error.contains("config:256"), "{error}");
    }

    fn error(text: &str) -> String {
        let error = ReaimConfig::parse("reaim.config", text).expect_err("wrong").to_string();
        assert!(!error.contains('\n'), "one line: {error}");
        error
    }

    #[test]
    fn every_key_is_read_by_its_first_letter() {
        let text = "# config\r\nFILESIZE 10k\r\nPOOLSIZE: 1m\nDISKDIR /tmp/a b\nD /tmp/c\n\
                    startusers 2\nE=8\nINC 3\nJOBS 50\nVERBOSE 2\nCROSSOVER\nBRIEF 0\n";
        let config = ReaimConfig::parse("reaim.config", text).expect("valid");
        let expected = ReaimConfig {
            sizes: Stated { file_kb: Some(10), pool_kb: Some(1024) },
            directories: vec!["/tmp/a b".into(), "/tmp/c".into()],
            start_users: Some(2),
            end_users: Some(8),
            increment: Some(3),
            jobs: Some(50),
            verbose: true,
            crossover: true,
            brief: false,
            notes: Vec::new(),
        };
        assert_eq!(config, expected);
        assert_eq!(ReaimConfig::parse("c", "").expect("empty"), ReaimConfig::default());
    }

    #[test]
    fn misspelt_keys_are_taken_as_reaim_takes_them_and_named() {
        let text = "FILSIZE 100k\n\nOOLSIZE 1m\nJOBS 50\nEDNUSERS 7\nXYZ 1\n";
        let config = ReaimConfig::parse("reaim.config", text).expect("valid");
        assert_eq!((config.sizes.file_kb, config.sizes.pool_kb), (Some(100), None));
        assert_eq!((config.end_users, config.jobs), (Some(7), Some(50)));
        let by_letter = "as in re-aim its first letter decides";
        let expected = [
            format!("reaim.config:1: \"FILSIZE\" is taken for FILESIZE: {by_letter}"),
            "reaim.config:3: no key called \"OOLSIZE\"; skipped as in re-aim; did you mean \
             POOLSIZE?"
                .to_owned(),
            format!("reaim.config:5: \"EDNUSERS\" is taken for ENDUSERS: {by_letter}"),
            "reaim.config:6: no key called \"XYZ\"; skipped as in re-aim".to_owned(),
        ];
        assert_eq!(config.notes, expected);
    }

    #[test]
    fn errors_name_file_line_and_cure() {
        assert!(
            error("\nSTARTUSERS none")
                .starts_with("reaim.config:2: \"none\" is not a valid STARTUSERS;")
        );
        assert!(error("ENDUSERS 0").contains("from 1 to"));
        assert!(error("JOBS +5").contains("\"+5\" is not a valid JOBS; give"));
        assert!(error("FILESIZE 10").contains("\"10\" is not a size; write"));
        assert!(error("DISKDIR").contains("names no directory; write"));
        assert!(error("CROSSOVER maybe").contains("write 1 or 0"));
        assert!(error("S 5\nE 2").starts_with("reaim.config: STARTUSERS 5 is above ENDUSERS 2;"));
        let many = "D /d\n".repeat(MOST_DIRECTORIES + 1);
        assert!(error(&many).starts_with("reaim.config:256: more than 255 directories;"));
        let missing = ReaimConfig::load("/nonexistent/reaim.config").expect_err("no file");
        assert!(missing.to_string().contains("cannot be read"));
    }
}
