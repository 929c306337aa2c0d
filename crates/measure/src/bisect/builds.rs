//! Builds of commits, each in a separate work tree, of which a limited number is kept.
//!
//! A work tree is a slot: when all are in use, the least recently used is moved to the next commit,
//! except the trees of the ends of the search, which are measured again and again.

use super::git::{Commits, Git};
use super::journal::{Event, Journal};
use super::settings::{Layout, Settings};
use crate::{Ending, Finished, MeasureError, Program, RunError, kill_leftover, run};
use convoy_os::Interrupts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Below this much free space a failed build is the disk's fault, bytes.
const SPACE: u64 = 32 << 20;

/// A work tree with a finished build in it.
#[derive(Clone, Debug)]
struct Tree {
    /// Name of its directory.
    name: String,
    node: usize,
    build: u64,
    /// When it was used last.
    used: u64,
}

#[derive(Debug)]
pub(super) struct Builds {
    git: Git,
    state: PathBuf,
    trees: Vec<Tree>,
    keep: usize,
    incremental: bool,
    program: Option<Program>,
    layout: Layout,
    /// The number of the first build of each commit built so far.
    numbers: BTreeMap<usize, u64>,
    next: u64,
    uses: u64,
    pub(super) made: u32,
    /// What each took, seconds.
    pub(super) seconds: Vec<f64>,
}

/// Why a build failed.
#[derive(Debug)]
pub(super) enum NoBuild {
    /// The commit cannot be built; the cause.
    Skip(String),
    /// The search cannot continue.
    Stop(MeasureError),
}

impl From<MeasureError> for NoBuild {
    fn from(failure: MeasureError) -> Self {
        Self::Stop(failure)
    }
}

/// The failure of an interrupted search.
pub(super) fn interrupted() -> MeasureError {
    MeasureError::machine(
        "interrupted; go on with convoy lab bisect --resume: no finished run is lost",
    )
}

impl Builds {
    pub(super) fn new(git: Git, state: &Path, settings: &Settings) -> Self {
        kill_leftover(&state.join("running"));
        let program = settings.build.as_deref().map(|line| {
            let mut program = Program::shell(line);
            program.limit = settings.build_timeout.map(Duration::from_secs_f64);
            program.marker = Some(state.join("running"));
            if let Some(jobs) = settings.jobs {
                program.environment.push(("MAKEFLAGS".into(), format!("-j{jobs}").into()));
                for name in ["CARGO_BUILD_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL"] {
                    program.environment.push((name.into(), jobs.to_string().into()));
                }
            }
            program
        });
        Self {
            git,
            state: state.to_owned(),
            trees: Vec::new(),
            // Both ends stay, and the commit that is measured.
            keep: (settings.keep_builds as usize).max(3),
            incremental: settings.incremental,
            program,
            layout: settings.layout,
            numbers: BTreeMap::new(),
            next: 0,
            uses: 0,
            made: 0,
            seconds: Vec::new(),
        }
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.state.join("trees").join(name)
    }

    /// From the log: the work tree `name` was given to another commit.
    pub(super) fn replay_building(&mut self, name: &str) {
        self.trees.retain(|tree| tree.name != name);
    }

    /// From the log: `node` was built in the work tree `name`.
    pub(super) fn replay_built(&mut self, node: usize, build: u64, name: &str, seconds: f64) {
        self.note(Tree { name: name.to_owned(), node, build, used: 0 }, seconds);
    }

    fn note(&mut self, tree: Tree, seconds: f64) {
        self.numbers.insert(tree.node, tree.build);
        self.next = self.next.max(tree.build + 1);
        self.made += 1;
        self.seconds.push(seconds);
        self.trees.push(tree);
    }

    /// After the log was read: keeps the work trees that match it, and removes all others.
    pub(super) fn recover(&mut self, commits: &Commits) -> Result<(), MeasureError> {
        let place = self.state.join("trees");
        std::fs::create_dir_all(&place).map_err(|error| {
            MeasureError::machine(format!("cannot make {}: {error}", place.display()))
        })?;
        let git = self.git.clone();
        self.trees.retain(|tree| {
            let directory = place.join(&tree.name);
            Git::head(&directory).is_some_and(|head| head == commits.list[tree.node].id)
        });
        let kept = |name: &str| self.trees.iter().any(|tree| tree.name == name);
        for entry in std::fs::read_dir(&place).into_iter().flatten().flatten() {
            if !kept(&entry.file_name().to_string_lossy()) {
                git.remove_worktree(&entry.path());
            }
        }
        Ok(())
    }

    /// The directory of build `build`, if it is kept.
    pub(super) fn find(&mut self, build: u64) -> Option<PathBuf> {
        self.uses += 1;
        let tree = self.trees.iter_mut().find(|tree| tree.build == build)?;
        tree.used = self.uses;
        let name = tree.name.clone();
        Some(self.directory(&name))
    }

    /// A build of `node` that is kept.
    pub(super) fn of(&self, node: usize) -> Option<u64> {
        self.trees.iter().rev().find(|tree| tree.node == node).map(|tree| tree.build)
    }

    /// Builds `node`: its number.
    pub(super) fn make(
        &mut self,
        node: usize,
        commits: &Commits,
        journal: &mut Journal,
        interrupts: &Interrupts,
    ) -> Result<u64, NoBuild> {
        let commit = &commits.list[node].id;
        let begin = Instant::now();
        let (name, moved) = self.slot(commits);
        let event = Event::Building { commit: commit.clone(), directory: name.clone() };
        journal.append(&event)?;
        self.replay_building(&name);
        let directory = self.directory(&name);
        if moved {
            Git::move_worktree(&directory, commit, self.incremental)?;
        } else {
            self.git.add_worktree(&directory, commit)?;
        }
        if let Err(cause) = self.compile(&directory, commit, interrupts) {
            self.git.remove_worktree(&directory);
            return Err(cause);
        }
        let seconds = begin.elapsed().as_secs_f64();
        let same = self.numbers.get(&node).copied().filter(|_| self.layout != Layout::New);
        let build = same.unwrap_or(self.next);
        journal.append(&Event::Built {
            commit: commit.clone(),
            build,
            directory: name.clone(),
            seconds,
        })?;
        self.uses += 1;
        self.note(Tree { name, node, build, used: self.uses }, seconds);
        Ok(build)
    }

    /// Returns the name of a free work tree, or of the least recently used, and whether it exists.
    fn slot(&self, commits: &Commits) -> (String, bool) {
        if self.trees.len() >= self.keep {
            let ends = commits.ends();
            let old = self.trees.iter().filter(|tree| !ends.contains(&tree.node));
            if let Some(old) = old.min_by_key(|tree| tree.used) {
                return (old.name.clone(), true);
            }
        }
        let taken = |name: &String| self.trees.iter().any(|tree| tree.name == *name);
        let mut names = (0..).map(|number| format!("tree-{number}"));
        (names.find(|name| !taken(name)).unwrap_or_default(), false)
    }

    fn compile(
        &self,
        directory: &Path,
        commit: &str,
        interrupts: &Interrupts,
    ) -> Result<(), NoBuild> {
        let Some(program) = &self.program else { return Ok(()) };
        let mut program = program.clone();
        program.directory = Some(directory.to_owned());
        program.environment.push(("CONVOY_COMMIT".into(), commit.into()));
        match run(&program, interrupts) {
            Ok(Finished { ending: Ending::Code(0), .. }) => Ok(()),
            Ok(finished) => {
                self.space()?;
                Err(NoBuild::Skip(format!("the build {}", finished.describe())))
            }
            Err(RunError::Interrupted) => Err(NoBuild::Stop(interrupted())),
            Err(error) => Err(NoBuild::Stop(MeasureError::machine(format!("--build: {error}")))),
        }
    }

    /// A full disk fails every build; that says nothing about a commit.
    fn space(&self) -> Result<(), MeasureError> {
        let Ok(disk) = rustix::fs::statvfs(&self.state) else { return Ok(()) };
        if disk.f_bavail.saturating_mul(disk.f_frsize) < SPACE {
            let name = self.state.display();
            return Err(MeasureError::machine(format!(
                "a build failed and the disk of {name} is full; free space, then go on with \
                 --resume"
            )));
        }
        Ok(())
    }

    /// Removes all work trees.
    pub(super) fn clean(&mut self) {
        let place = self.state.join("trees");
        for entry in std::fs::read_dir(&place).into_iter().flatten().flatten() {
            self.git.remove_worktree(&entry.path());
        }
        self.trees.clear();
        let _may_hold_other_files = std::fs::remove_dir(&place);
    }
}
