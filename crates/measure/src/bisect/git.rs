//! Calls of git: the history between two revisions, and work trees of its commits.
//!
//! Only plumbing with a fixed output; no hook runs, and the user's checkout is never written.

use crate::MeasureError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A repository.
#[derive(Clone, Debug)]
pub struct Git {
    directory: PathBuf,
}

/// One commit, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Its full id.
    #[serde(rename = "commit")]
    pub id: String,
    /// Its author.
    pub author: String,
    /// When, as ISO 8601.
    pub date: String,
    /// The first line of its message.
    pub subject: String,
}

impl Commit {
    /// The first characters of its id.
    pub fn short(&self) -> &str {
        short(&self.id)
    }
}

/// The first characters of an id.
fn short(id: &str) -> &str {
    &id[..id.len().min(12)]
}

/// The commits of a search. The good end is number 0, the bad end the last; parents come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commits {
    /// All of them.
    pub list: Vec<Commit>,
    /// Parents that are in the list.
    pub parents: Vec<Vec<usize>>,
}

impl Commits {
    /// The number of the commit `id`.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.list.iter().position(|commit| commit.id == id)
    }

    /// The ends, by number.
    pub fn ends(&self) -> [usize; 2] {
        [0, self.list.len() - 1]
    }
}

/// The ends of a search after their names were looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Full id of the good one.
    pub good: String,
    /// Full id of the bad one.
    pub bad: String,
    /// A note to the user if the good end differs from the argument.
    pub note: Option<String>,
}

impl Git {
    /// The repository that `directory` is in.
    pub fn open(directory: &Path) -> Result<Self, MeasureError> {
        let name = directory.display();
        if !directory.is_dir() {
            return Err(MeasureError::request(format!(
                "--repo {name}: there is no such directory"
            )));
        }
        let git = Self { directory: directory.to_owned() };
        let common = git.ask(["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        let common = common.map_err(|error| {
            if error.stderr.contains("not a git repository") {
                MeasureError::request(format!("{name} is not in a git repository; give --repo DIR"))
            } else {
                error.environment()
            }
        })?;
        Ok(Self { directory: common.trim_end_matches('\n').into() })
    }

    /// The directory that all its work trees share.
    pub fn common_directory(&self) -> &Path {
        &self.directory
    }

    /// The full id of a commit.
    fn resolve(&self, flag: &str, revision: &str) -> Result<String, MeasureError> {
        let name = format!("{revision}^{{commit}}");
        let found = self.ask(["rev-parse", "--verify", "--quiet", "--end-of-options", &name]);
        found.map(|id| id.trim().to_owned()).map_err(|error| {
            if error.stderr.contains("ambiguous") {
                let text = format!("{flag} {revision}: more than one object begins so; give more");
                return MeasureError::request(text);
            }
            MeasureError::request(format!(
                "{flag} {revision}: there is no such commit in this repository; correct the name, \
                 or fetch it"
            ))
        })
    }

    /// The good and the bad end of the search that `git bisect` has started in the work tree at
    /// `directory`: of several good commits, the closest to the bad one.
    pub fn marked(directory: &Path) -> Result<(String, String), MeasureError> {
        // Each work tree has its own search.
        let git = Self { directory: directory.to_owned() };
        let path =
            git.say(["rev-parse", "--path-format=absolute", "--git-path", "BISECT_TERMS"])?;
        let terms = std::fs::read_to_string(path.trim_end_matches('\n')).unwrap_or_default();
        let mut terms = terms.lines();
        let bad = format!("refs/bisect/{}", terms.next().unwrap_or("bad"));
        let good = format!("refs/bisect/{}-", terms.next().unwrap_or("good"));
        let refs = git.say(["for-each-ref", "--format=%(refname)", "refs/bisect/"])?;
        let mut nearest: Option<(u64, String)> = None;
        for name in refs.lines().filter(|name| name.starts_with(&good)) {
            let count = git.ask(["rev-list", "--count", &format!("{name}..{bad}")]);
            let count = count.ok().and_then(|count| count.trim().parse().ok()).unwrap_or(u64::MAX);
            if nearest.as_ref().is_none_or(|(least, _)| count < *least) {
                nearest = Some((count, name.to_owned()));
            }
        }
        match nearest {
            Some((_, good)) if refs.lines().any(|name| name == bad) => Ok((good, bad)),
            _ => Err(MeasureError::request(
                "git bisect has not marked a bad and a good commit here: git bisect start BAD GOOD",
            )),
        }
    }

    /// Looks up both ends. A good end that is not an ancestor is replaced by the merge base.
    pub fn ends(&self, good: &str, bad: &str) -> Result<Ends, MeasureError> {
        let (good_id, bad_id) = (self.resolve("--good", good)?, self.resolve("--bad", bad)?);
        if good_id == bad_id {
            return Err(MeasureError::request(format!(
                "--good {good} and --bad {bad} are one commit"
            )));
        }
        let base = self.ask(["merge-base", &good_id, &bad_id]).unwrap_or_default();
        let base = base.trim().to_owned();
        if base == good_id {
            return Ok(Ends { good: good_id, bad: bad_id, note: None });
        }
        if base == bad_id {
            return Err(MeasureError::request(format!(
                "--bad {bad} is an ancestor of --good {good}: no commit between them can have \
                 made it bad; exchange the two to look for what made it better"
            )));
        }
        if base.is_empty() {
            let shallow = self.ask(["rev-parse", "--is-shallow-repository"]).unwrap_or_default();
            let cure = match shallow.trim() {
                "true" => "this clone is shallow: git fetch --unshallow",
                _ => "choose two revisions of one history",
            };
            let text = format!("--good {good} and --bad {bad} have no common ancestor; {cure}");
            return Err(MeasureError::request(text));
        }
        let note = format!(
            "{good} is no ancestor of {bad}: their merge base {} is measured as the good end",
            short(&base)
        );
        Ok(Ends { good: base, bad: bad_id, note: Some(note) })
    }

    /// All commits that `bad` contains and `good` does not, and `good`.
    pub fn commits(&self, ends: &Ends, first_parent: bool) -> Result<Commits, MeasureError> {
        let range = format!("{}..{}", ends.good, ends.bad);
        let format = "--format=%H%x00%P%x00%an%x00%aI%x00%s";
        let plain =
            ["-c", "log.showSignature=false", "-c", "log.mailmap=true", "log", "--no-color"];
        let good = self.say([plain.as_slice(), &["-1", format, &ends.good]].concat())?;
        let mut flags = vec!["--topo-order", "--reverse", format];
        flags.extend(first_parent.then_some("--first-parent"));
        flags.extend([range.as_str(), "--"]);
        let between = self.say([plain.as_slice(), &flags].concat())?;
        let mut commits = Commits { list: Vec::new(), parents: Vec::new() };
        let mut numbers = BTreeMap::new();
        for line in good.lines().take(1).chain(between.lines()) {
            let fields: Vec<&str> = line.splitn(5, '\0').collect();
            let &[id, parents, author, date, subject] = fields.as_slice() else { continue };
            let most = if first_parent { 1 } else { usize::MAX };
            let parents = parents.split_whitespace().take(most);
            let known = parents.filter_map(|parent| numbers.get(parent).copied()).collect();
            numbers.insert(id.to_owned(), commits.list.len());
            commits.parents.push(if commits.list.is_empty() { Vec::new() } else { known });
            let [id, author, date, subject] = [id, author, date, subject].map(str::to_owned);
            commits.list.push(Commit { id, author, date, subject });
        }
        if commits.list.len() < 2 || commits.list.last().is_none_or(|last| last.id != ends.bad) {
            return Err(MeasureError::machine("git log does not end with the bad commit"));
        }
        Ok(commits)
    }

    /// The commits of the range that change one of `paths`.
    pub(super) fn changing(
        &self,
        ends: &Ends,
        first_parent: bool,
        paths: &[String],
    ) -> Result<Vec<String>, MeasureError> {
        let range = format!("{}..{}", ends.good, ends.bad);
        let mut words = vec!["rev-list", "--full-history"];
        words.extend(first_parent.then_some("--first-parent"));
        words.extend([range.as_str(), "--"]);
        words.extend(paths.iter().map(String::as_str));
        Ok(self.say(words)?.lines().map(str::to_owned).collect())
    }

    /// Makes a work tree of commit `id` at `directory`, which does not exist.
    pub(super) fn add_worktree(&self, directory: &Path, id: &str) -> Result<(), MeasureError> {
        let path = directory.as_os_str();
        let words = ["worktree", "add", "--quiet", "--force", "--force", "--detach"];
        let words = words.map(OsStr::new).into_iter().chain([path, OsStr::new(id)]);
        self.ask(words).map(drop).map_err(Refused::environment)
    }

    /// Puts the work tree at `directory` on commit `id`; what git does not track goes, too, unless
    /// `keep`.
    pub(super) fn move_worktree(
        directory: &Path,
        id: &str,
        keep: bool,
    ) -> Result<(), MeasureError> {
        let git = Self { directory: directory.to_owned() };
        git.say(["checkout", "--quiet", "--force", "--detach", id])?;
        if !keep {
            git.say(["clean", "-ffdxq"])?;
        }
        Ok(())
    }

    /// The commit that the work tree at `directory` is on.
    pub(super) fn head(directory: &Path) -> Option<String> {
        let git = Self { directory: directory.to_owned() };
        let top = git.ask(["rev-parse", "--show-toplevel", "HEAD"]).ok()?;
        let (top, head) = top.trim().split_once('\n')?;
        // Without a work tree there, git finds one further up.
        let same = std::fs::canonicalize(directory).is_ok_and(|found| found == Path::new(top));
        same.then(|| head.to_owned())
    }

    /// Removes the work tree at `directory`, whatever state it is in.
    pub(super) fn remove_worktree(&self, directory: &Path) {
        let path = directory.as_os_str();
        let words = ["worktree", "remove", "--force", "--force"].map(OsStr::new);
        if self.ask(words.into_iter().chain([path])).is_err() {
            // Half made, by a search that was killed: git forgets it once the directory is gone.
            let _may_be_gone = std::fs::remove_dir_all(directory);
            let words = ["worktree", "unlock"].map(OsStr::new);
            let _may_be_unlocked = self.ask(words.into_iter().chain([path]));
            let _best_effort = self.ask(["worktree", "prune"]);
        }
    }

    /// Output of a git command that must not fail.
    fn say<W: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = W>,
    ) -> Result<String, MeasureError> {
        self.ask(words).map_err(Refused::environment)
    }

    fn ask<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Result<String, Refused> {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.directory);
        command.args(["-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"]);
        let words: Vec<W> = words.into_iter().collect();
        command.args(&words);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"] {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
        let words: Vec<_> = words.iter().map(|word| word.as_ref().to_string_lossy()).collect();
        let verb = words.iter().find(|word| !word.starts_with('-') && !word.contains('='));
        let verb = verb.map(ToString::to_string).unwrap_or_default();
        let output = command.output().map_err(|error| Refused {
            verb: verb.clone(),
            stderr: format!("{error}; install git, or put it on the PATH"),
        })?;
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if !output.status.success() {
            return Err(Refused { verb, stderr });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// A git command that failed.
#[derive(Debug)]
struct Refused {
    verb: String,
    stderr: String,
}

impl Refused {
    fn environment(self) -> MeasureError {
        let lines: Vec<&str> = self.stderr.lines().rev().take(3).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        MeasureError::machine(format!("git {}: {}", self.verb, lines.join("; ")))
    }
}
