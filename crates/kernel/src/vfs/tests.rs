//! The same scene under the locks of every version: checks that no data is lost, and the locks that
//! are acquired.

use super::*;
use crate::{KernelPreset, Options, Process, RwsemPolicy, World};
use convoy_machine::{Event, Machine, Names, Outcome, Preset, Record, Recorder};
use convoy_sync::LockEvent;
use convoy_workload::Errno;
use convoy_workload::api::{Kernel, Open, Query};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Locks of up to 2.6.35, of 2.6.36, 2.6.38, 3.2, 3.13 and 6.12, and two mixtures that no version
/// had.
fn all() -> [VfsRules; 8] {
    let global = VfsRules::default();
    let per_cpu = VfsRules {
        mounts: MountLocks::PerCpu,
        open_files: OpenFileLocks::PerCpu,
        tmpfs_blocks: TmpfsBlocks::PerCpu,
        page_lookup: PageLookup::Lockless,
        journal_state: StateLocks::ReadWrite,
        ..global
    };
    let rcu_walk = VfsRules {
        dcache: DcacheLocks::RcuWalk,
        mounts: MountLocks::PerCpuCounts,
        inodes: InodeLocks::Split,
        ..per_cpu
    };
    let free_seeks =
        VfsRules { inodes: InodeLocks::SplitUnlistedPipes, lseek: Seek::Lockless, ..rcu_walk };
    let lockref = VfsRules {
        dcache: DcacheLocks::Lockref,
        mounts: MountLocks::Seqlock,
        open_files: OpenFileLocks::None,
        ..free_seeks
    };
    let latest = VfsRules { inode_lock: SleepingLock::Rwsem, create: Create::Looks, ..lockref };
    let only_walks = VfsRules { dcache: DcacheLocks::RcuWalk, ..global };
    let all_but_walks = VfsRules { dcache: DcacheLocks::DcacheLock, ..lockref };
    [global, per_cpu, rcu_walk, free_seeks, lockref, latest, only_walks, all_but_walks]
}

/// How often each lock was taken.
#[derive(Default)]
pub(crate) struct Taken {
    names: Names,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Recorder for Taken {
    fn record(&mut self, record: &Record) {
        match record.event {
            Event::Name { lock, bytes, name } => {
                self.names.add(lock, bytes, name);
            }
            Event::Lock { event: LockEvent::Acquired, lock, .. } => {
                let name = self.names.covering(lock).map_or("", |(_, name)| name);
                *self.counts.entry(name).or_default() += 1;
            }
            _ => {}
        }
    }
}

/// Runs `scene` as the first process on two CPUs.
fn stage(
    vfs: VfsRules,
    file_system: FileSystem,
    scene: impl FnOnce(&mut Process) + 'static,
) -> BTreeMap<&'static str, u64> {
    stage_with(vfs, Options { file_system, ..Options::default() }, scene)
}

fn stage_with(
    vfs: VfsRules,
    options: Options,
    scene: impl FnOnce(&mut Process) + 'static,
) -> BTreeMap<&'static str, u64> {
    let mut kernel = KernelPreset { vfs, ..KernelPreset::named("3.7").expect("shipped") };
    if vfs.inode_lock == SleepingLock::Rwsem {
        kernel.locks.rwsem = RwsemPolicy::HandOver;
    }
    let mut preset = Preset::named("quad-2008-shared-llc").expect("shipped").with_cpus(2);
    preset.disk.latency_ns = 0.0;
    let units = [("shell_start", 400_000.0), ("list_program", 500_000.0)];
    let units = units.map(|(name, ns)| (name.to_owned(), ns)).into();
    let machine = Machine::new(&preset, 1, 200).expect("address space");
    let taken = Rc::new(RefCell::new(Taken::default()));
    machine.record(taken.clone());
    let world = World::new(&kernel, &preset, &units, options).expect("units");
    world.boot(&machine, |k| {
        scene(k);
        assert_eq!(k.world().held_locks(), Vec::<&str>::new());
        assert_eq!(convoy_machine::Here::preempt_depth(), 0);
    });
    assert_eq!(machine.run(60_000_000_000), Outcome::Stopped, "{vfs:?}");
    taken.borrow().counts.clone()
}

/// References to the names and mounts that outlive a scene.
fn references(world: &World) -> Vec<i64> {
    let tree = &world.tree;
    let tmp = tree.root.child("tmp").expect("planted");
    let mounted = tmp.mounted.borrow().clone().expect("mounted");
    let bin = tree.root.child("bin").expect("planted");
    let names = [&tree.root, &tmp, &mounted, &bin];
    let names = names.map(|name| i64::from(name.hot.count.read()));
    let mounts = [&tree.root, &mounted].map(|root| {
        let sb = &root.inode.sb;
        let by_cpu: i32 = sb.mounts.iter().map(|count| count.peek()).sum();
        i64::from(sb.hot.mount.read()) + i64::from(by_cpu)
    });
    names.into_iter().chain(mounts).collect()
}

/// Every path to names, by two processes in one directory.
fn work(k: &mut Process) {
    for round in 0..20 {
        for user in 0..2 {
            let body = move |k: &mut Process| {
                k.chdir("/tmp").unwrap();
                let own = format!("d{user}");
                k.mkdir(&own).unwrap();
                assert_eq!(k.mkdir(&own), Err(Errno::EEXIST));
                let name = format!("/tmp/{own}/../f{user}");
                let fd = k.open(&name, Open::CREAT).unwrap();
                k.write(fd, &[1; 5000]).unwrap();
                k.seek(fd, 10).unwrap();
                k.close(fd).unwrap();
                let fd = k.open(&name, Open::CREAT).unwrap();
                k.close(fd).unwrap();
                assert_eq!(k.stat("/tmp/none"), Err(Errno::ENOENT));
                assert_eq!(k.stat("/bin/none"), Err(Errno::ENOENT));
                assert_eq!(k.stat("/bin/sh/none"), Err(Errno::ENOTDIR));
                assert_eq!(k.open("/bin/sh/none", Open::CREAT), Err(Errno::ENOTDIR));
                k.link(&name, &format!("g{user}")).unwrap();
                k.query(Query::WorkingDirectory).unwrap();
                let fd = k.open("/tmp/.", Open::READ).unwrap();
                assert!(k.read_directory(fd).unwrap() > 2);
                k.close(fd).unwrap();
                rename_around(k, user, &own);
                k.unlink(&name).unwrap();
                assert_eq!(k.unlink(&name), Err(Errno::ENOENT));
                k.unlink(&format!("g{user}")).unwrap();
                k.rmdir(&own).unwrap();
                0
            };
            k.fork(body).expect("room");
        }
        while k.wait().is_ok() {}
        assert_eq!(k.world().tmpfs_pages(), 0, "round {round}");
    }
}

/// Renames of `g0` within a directory, into another one and back, over a file and over a directory;
/// at the end all is as before.
fn rename_around(k: &mut Process, user: u32, own: &str) {
    let (name, inner) = (format!("g{user}"), format!("{own}/inner"));
    let size = k.stat(&name).unwrap().size;
    k.rename(&name, &format!("h{user}")).unwrap();
    assert_eq!(k.stat(&name), Err(Errno::ENOENT));
    k.rename(&format!("h{user}"), &inner).unwrap();
    assert_eq!(k.stat(&inner).unwrap().size, size);
    let fd = k.open(&name, Open::CREAT).unwrap();
    k.rename(&inner, &name).unwrap();
    k.close(fd).unwrap();
    assert_eq!((k.stat(&name).unwrap().size, k.stat(&name).unwrap().links), (size, 2));
    let below = format!("{own}/below");
    k.mkdir(&below).unwrap();
    assert_eq!(k.stat(own).unwrap().links, 3);
    let moved = format!("moved{user}");
    k.mkdir(&moved).unwrap();
    k.rename(&below, &moved).unwrap();
    assert_eq!((k.stat(own).unwrap().links, k.stat(&moved).unwrap().links), (2, 2));
    assert_eq!(k.stat(&format!("{moved}/../{name}")).unwrap().size, size);
    for (old, new, errno) in [
        ("/tmp/none", own, Errno::ENOENT),
        (own, &format!("{own}/x/y"), Errno::ENOENT),
        (own, &format!("{own}/x"), Errno::EINVAL),
        (&name, own, Errno::EISDIR),
        (own, &name, Errno::ENOTDIR),
        (&name, "/bin/x", Errno::EXDEV),
    ] {
        assert_eq!(k.rename(old, new), Err(errno), "{old} to {new}");
    }
    k.mkdir(&format!("{moved}/full")).unwrap();
    assert_eq!(k.rename(own, &moved), Err(Errno::ENOTEMPTY));
    assert_eq!(k.rename(&format!("{moved}/full"), &moved), Err(Errno::ENOTEMPTY));
    k.rmdir(&format!("{moved}/full")).unwrap();
    k.rmdir(&moved).unwrap();
}

#[test]
fn a_rename_takes_the_locks_of_its_rules() {
    const ROUNDS: u64 = 100;
    let [global, _, rcu_walk, ..] = all();
    for (vfs, across, expected) in [
        // Per rename: a dentry for the new name is allocated and listed three times.
        (global, false, [("i_mutex_dir_key", 1), ("s_vfs_rename_mutex", 0), ("rename_lock", 1)]),
        (global, true, [("i_mutex_dir_key", 2), ("s_vfs_rename_mutex", 1), ("rename_lock", 1)]),
        (rcu_walk, false, [("i_mutex_dir_key", 1), ("s_vfs_rename_mutex", 0), ("rename_lock", 1)]),
        (rcu_walk, true, [("i_mutex_dir_key", 2), ("s_vfs_rename_mutex", 1), ("rename_lock", 1)]),
    ] {
        let run = |rounds: u64| {
            stage(vfs, FileSystem::Tmpfs, move |k| {
                k.mkdir("/tmp/d").unwrap();
                let fd = k.open("/tmp/a", Open::CREAT).unwrap();
                k.close(fd).unwrap();
                let other = if across { "/tmp/d/a" } else { "/tmp/b" };
                for _ in 0..rounds {
                    k.rename("/tmp/a", other).unwrap();
                    k.rename(other, "/tmp/a").unwrap();
                }
            })
        };
        let (some, more) = (run(ROUNDS), run(2 * ROUNDS));
        for (name, times) in expected {
            let taken = |run: &BTreeMap<_, u64>| run.get(name).copied().unwrap_or(0);
            let each = (taken(&more) - taken(&some)) / (2 * ROUNDS);
            assert_eq!(each, times, "{name} under {vfs:?}, across directories: {across}");
        }
    }
}

#[test]
fn every_reference_is_given_back_under_all_rules() {
    let disk = FileSystem::Journal(JournalOptions::default());
    for vfs in all() {
        for file_system in [FileSystem::Tmpfs, disk] {
            stage(vfs, file_system, move |k| {
                let before = references(k.world());
                work(k);
                assert_eq!(references(k.world()), before, "{vfs:?} {file_system:?}");
            });
        }
    }
}

#[test]
fn a_file_system_is_full_at_its_limit_under_all_rules() {
    for vfs in all() {
        for pages in [10, 3000] {
            let options = Options { tmpfs: pages << 12, ..Options::default() };
            stage_with(vfs, options, move |k| {
                let fd = k.open("/tmp/a", Open::CREAT).unwrap();
                for page in 0..pages {
                    assert_eq!(k.write(fd, &[1; 4096]), Ok(4096), "{vfs:?}, page {page}");
                }
                assert_eq!(k.write(fd, &[1; 4096]), Err(Errno::ENOSPC), "{vfs:?}");
                assert_eq!(k.world().tmpfs_pages(), pages);
                k.close(fd).unwrap();
                k.unlink("/tmp/a").unwrap();
                assert_eq!(k.world().tmpfs_pages(), 0);
            });
        }
    }
}

#[test]
fn a_walk_takes_the_locks_of_its_rules() {
    /// `open`, `stat` and `close` of one name.
    const ROUNDS: u64 = 100;
    let names = |k: &mut Process, rounds: u64| {
        for _ in 0..rounds {
            let fd = k.open("/bin/sh", Open::READ).expect("there");
            k.stat("/bin/sh").expect("there");
            k.close(fd).expect("open");
        }
    };
    let [global, per_cpu, rcu_walk, free_seeks, lockref, latest, only_walks, all_but_walks] = all();
    for (vfs, expected) in [
        // Two names in each of two walks; the last reference to one, at `close`.
        (global, [("d_lock", 5), ("dcache_lock", 1), ("files_lock", 2)]),
        (per_cpu, [("d_lock", 5), ("dcache_lock", 1), ("files_lglock", 2)]),
        // A reference at the end of each walk and its return; the walks and returns of the mount.
        (rcu_walk, [("d_lock", 4), ("vfsmount_lock", 4), ("files_lglock", 2)]),
        (free_seeks, [("d_lock", 4), ("vfsmount_lock", 4), ("files_lglock", 2)]),
        (lockref, [("d_lock", 0), ("vfsmount_lock", 0), ("files_lglock", 0)]),
        (latest, [("d_lock", 0), ("vfsmount_lock", 0), ("files_lglock", 0)]),
        // Each rule alone: the section of a walk is under the global lock.
        (only_walks, [("d_lock", 4), ("vfsmount_lock", 2), ("files_lock", 2)]),
        (all_but_walks, [("d_lock", 5), ("dcache_lock", 1), ("files_lock", 0)]),
    ] {
        let some = stage(vfs, FileSystem::Tmpfs, move |k| names(k, ROUNDS));
        let more = stage(vfs, FileSystem::Tmpfs, move |k| names(k, 2 * ROUNDS));
        let each = |name| {
            let taken = |run: &BTreeMap<_, u64>| run.get(name).copied().unwrap_or(0);
            (taken(&more) - taken(&some)) / ROUNDS
        };
        for (name, times) in expected {
            assert_eq!(each(name), times, "{name} under {vfs:?}");
        }
        let global = ["dcache_lock", "files_lock", "rename_lock"].map(each);
        let shared =
            vfs.dcache == DcacheLocks::DcacheLock || vfs.open_files == OpenFileLocks::FilesLock;
        assert!(shared || global == [0; 3], "{vfs:?}: {global:?}");
    }
}

#[test]
fn from_6_12_on_a_name_that_exists_is_found_without_its_directory() {
    const ROUNDS: u64 = 100;
    let [.., lockref, latest, _, _] = all();
    for (vfs, opens) in [(lockref, 1), (latest, 0)] {
        let run = |rounds: u64| {
            stage(vfs, FileSystem::Tmpfs, move |k| {
                for _ in 0..=rounds {
                    let fd = k.open("/tmp/a", Open::CREAT).unwrap();
                    k.close(fd).unwrap();
                }
            })
        };
        let [some, more] = [run(ROUNDS), run(2 * ROUNDS)].map(|run| run["i_mutex_dir_key"]);
        assert_eq!(more - some, opens * ROUNDS, "{vfs:?}");
    }
}

#[test]
fn readers_of_a_directory_share_its_semaphore() {
    let [.., lockref, latest, _, _] = all();
    let [alone, shared] = [lockref, latest].map(|vfs| {
        let took = Rc::new(Cell::new(0));
        let seen = Rc::clone(&took);
        stage(vfs, FileSystem::Tmpfs, move |k| {
            for name in 0..1000 {
                let fd = k.open(&format!("/tmp/{name}"), Open::CREAT).unwrap();
                k.close(fd).unwrap();
            }
            let since = convoy_machine::Here::now_ns();
            for _ in 0..2 {
                let body = |k: &mut Process| {
                    for _ in 0..40 {
                        let fd = k.open("/tmp/.", Open::READ).unwrap();
                        assert!(k.read_directory(fd).unwrap() > 900);
                        k.close(fd).unwrap();
                    }
                    0
                };
                k.fork(body).expect("room");
            }
            while k.wait().is_ok() {}
            seen.set(convoy_machine::Here::now_ns() - since);
        });
        took.get()
    });
    assert!(10 * shared < 8 * alone, "{shared} ns with readers that share, {alone} ns without");
}
