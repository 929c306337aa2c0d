//! Git repositories made for a test, by `git fast-import`: hundreds of commits in milliseconds.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A repository under construction, then on disk. Commits are numbered from 1.
pub(crate) struct Repo {
    pub(crate) path: PathBuf,
    stream: String,
    commits: usize,
    ids: Vec<String>,
}

impl Repo {
    /// An empty one in a fresh directory.
    pub(crate) fn new(test: &str) -> Self {
        let name = format!("convoy-bisect-{test}-{}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _may_not_exist = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("repo")).expect("made");
        Self { path, stream: String::new(), commits: 0, ids: Vec::new() }
    }

    /// A commit with these parents and changed files; its number.
    pub(crate) fn commit(
        &mut self,
        parents: &[usize],
        subject: &str,
        files: &[(&str, &str)],
    ) -> usize {
        self.commits += 1;
        let (stream, number) = (&mut self.stream, self.commits);
        let time = 1_700_000_000 + 3600 * number;
        if parents.is_empty() {
            // Without this, a commit without parents continues the branch.
            let _ = writeln!(stream, "reset refs/heads/main");
        }
        let _ = writeln!(stream, "commit refs/heads/main\nmark :{number}");
        let _ = writeln!(stream, "committer A. Writer <writer@example.org> {time} +0000");
        let _ = writeln!(stream, "data {}\n{subject}", subject.len());
        for (index, parent) in parents.iter().enumerate() {
            let _ = writeln!(stream, "{} :{parent}", if index == 0 { "from" } else { "merge" });
        }
        // A merge has the files of its first parent and these.
        for (path, text) in files {
            let _ = writeln!(stream, "M 100644 inline {path}\ndata {}\n{text}", text.len());
        }
        number
    }

    /// Writes it to disk and checks it out.
    pub(crate) fn make(mut self) -> Self {
        self.git(&["init", "--quiet", "--initial-branch=main"]);
        let mut import = Command::new("git");
        import.args(["fast-import", "--quiet", "--export-marks=../marks"]);
        let mut import = import
            .current_dir(self.path.join("repo"))
            .stdin(Stdio::piped())
            .spawn()
            .expect("git starts");
        let mut pipe = import.stdin.take().expect("a pipe");
        pipe.write_all(self.stream.as_bytes()).expect("written");
        drop(pipe);
        assert!(import.wait().expect("ends").success());
        let marks = std::fs::read_to_string(self.path.join("marks")).expect("marks");
        self.ids = vec![String::new(); self.commits + 1];
        for line in marks.lines() {
            let (mark, id) = line.trim_start_matches(':').split_once(' ').expect("mark and id");
            id.clone_into(&mut self.ids[mark.parse::<usize>().expect("a number")]);
        }
        self.git(&["reset", "--quiet", "--hard"]);
        self
    }

    /// The id of a commit.
    pub(crate) fn id(&self, number: usize) -> &str {
        &self.ids[number]
    }

    /// The number of a commit.
    pub(crate) fn number(&self, id: &str) -> usize {
        self.ids.iter().position(|of| of == id).expect("a commit of this repository")
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.path.join("repo")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    /// Output of git in it.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.directory(), args)
    }

    /// `convoy bisect` in it.
    pub(crate) fn bisect(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_convoy"));
        command.arg("bisect").arg("--repo").arg(self.directory());
        command.arg("--state").arg(self.state()).args(args);
        // Not into the store of the user of the tests.
        command.env("CONVOY_STORE", "none");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `git status` and the list of work trees, which a search must not change.
    pub(crate) fn footprint(&self) -> String {
        let status = self.git(&["status", "--porcelain", "--branch"]);
        let trees = self.git(&["worktree", "list", "--porcelain"]);
        format!("{status}{trees}{}", self.git(&["rev-parse", "HEAD"]))
    }

    /// The events of the log, as JSON.
    pub(crate) fn log(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.state().join("log.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Drop for Repo {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _best_effort = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn git(directory: &Path, args: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(directory).args(args).output().expect("git");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}
