//! The semaphore regression of 2008, found in a C program with real threads: 200 commits with
//! merges, some of which do not build, and one that makes the semaphore hand over its ownership.

use crate::repo::Repo;
use crate::{FINDING, json};
use std::time::Duration;

const MAIN: &str = include_str!("semaphore/main.c");
const HEADER: &str = include_str!("semaphore/sem.h");
const OPPORTUNISTIC: &str = include_str!("semaphore/opportunistic.c");
const HANDOFF: &str = include_str!("semaphore/handoff.c");
/// The commit that swaps the semaphore: the second of a side branch of three.
const CULPRIT: usize = 138;
const COMMITS: usize = 200;

/// Blocks of ten commits: six in the main line, three in a branch, a merge.
fn repository() -> Repo {
    let mut repo = Repo::new("semaphore");
    let mut last = 0;
    for block in 0..COMMITS / 10 {
        let mut main = Vec::new();
        for step in 0..6 {
            let note = format!("main {block} {step}\n");
            let note_file = format!("notes/{}", step % 3);
            let mut files = vec![(note_file.as_str(), note.as_str())];
            let broken = format!("{MAIN}\n#error work in progress\n");
            if last == 0 {
                files.extend([("main.c", MAIN), ("sem.h", HEADER), ("sem.c", OPPORTUNISTIC)]);
            } else if block % 4 == 3 && step == 4 {
                files.push(("main.c", &broken));
            } else if block % 4 == 3 && step == 5 {
                files.push(("main.c", MAIN));
            }
            let parents: Vec<usize> = (last > 0).then_some(last).into_iter().collect();
            last = repo.commit(&parents, &format!("main: Step {block}.{step}"), &files);
            main.push(last);
        }
        let mut side = main[2];
        for step in 0..3 {
            let note = format!("side {block} {step}\n");
            let mut files = vec![("notes/side", note.as_str())];
            let culprit = repo_position(block, step) == CULPRIT;
            if culprit {
                files.push(("sem.c", HANDOFF));
            }
            let subject = if culprit { "sem: Hand over to the first waiter" } else { "side: Step" };
            side = repo.commit(&[side], subject, &files);
        }
        // fast-import gives a merge the files of its first parent.
        let merged = (0..3).any(|step| repo_position(block, step) == CULPRIT);
        let files = [("sem.c", HANDOFF)];
        let files = if merged { &files[..] } else { &[] };
        last = repo.commit(&[last, side], &format!("Merge topic {block}"), files);
    }
    assert_eq!(last, COMMITS);
    repo.make()
}

/// The number of a commit in a branch.
fn repo_position(block: usize, step: usize) -> usize {
    10 * block + 7 + step
}

#[test]
fn a_handoff_is_found_across_a_kill() {
    let repo = repository();
    // The user's checkout is dirty, and stays so.
    std::fs::write(repo.directory().join("main.c"), "mine").expect("written");
    let before = repo.footprint();
    let (good, bad) = (repo.id(1), repo.id(COMMITS));
    let build = "cc -O1 -pthread -o bench main.c sem.c";
    let metric = r"rate: ([0-9.]+)";
    let args = ["--good", good, "--bad", bad, "--build", build, "--metric-regex", metric];
    let more = ["--unit", "1/ms", "--higher-is-better", "--quiet", "--", "./bench"];
    let mut child = repo.bisect(&[args.as_slice(), &more].concat()).spawn().expect("starts");
    let events = |name: &str| repo.log().iter().filter(|event| event["event"] == name).count();
    while events("run") < 10 {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("killed");
    child.wait().expect("dead");
    let (runs, builds) = (events("run"), events("built"));
    assert!(repo.git(&["worktree", "list"]).lines().count() > 1, "work trees are left behind");

    let plot = repo.path.join("plot.svg");
    let plot_name = plot.to_string_lossy();
    let resumed = repo.bisect(&["--resume", "--format", "json", "--plot", &plot_name]);
    let answer = json(resumed, FINDING);
    assert_eq!(answer["first_bad"], repo.id(CULPRIT), "{answer}");
    assert!(answer["confidence"].as_f64() >= Some(0.99), "{answer}");
    assert!(answer["effect_percent"]["mean"].as_f64() < Some(-50.0), "{answer}");
    assert_eq!(answer["confirmation"]["confirmed"], true, "{answer}");
    assert_eq!(answer["unit"], "1/ms");
    let all = answer["runs"].as_u64().expect("a count") as usize;
    assert!(all > runs && all < 200, "{all} runs, {runs} before the kill");
    assert_eq!(all, events("run"), "no run is lost or counted twice");
    assert!(answer["builds"].as_u64() <= Some(40), "{answer}");
    assert!(events("built") > builds);
    assert!(std::fs::read_to_string(&plot).expect("a plot").contains("sem: Hand over"));
    assert_eq!(repo.footprint(), before, "the user's checkout and the work trees");
}
