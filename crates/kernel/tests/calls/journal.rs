//! The file system with a journal, through the system calls.

use super::common::{Ran, kernel, preset, run, run_on, units};
use convoy_kernel::{
    BufferLocks, DiskRules, FileSystem, JournalOptions, JournalStats, KernelPreset, Options,
    Preempt, Process, StateLocks, VfsRules, World, volume_path,
};
use convoy_machine::{Here, Machine, Mode, Outcome, Preset};
use convoy_workload::Errno;
use convoy_workload::api::{Kernel, Open};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub(crate) const MS: u64 = 1_000_000;

pub(crate) const JOURNAL: JournalOptions =
    JournalOptions { blocks: 8192, async_commit: false, groups: 16, labels: false };

pub(crate) fn options(journal: JournalOptions) -> Options {
    Options { file_system: FileSystem::Journal(journal), ..Options::default() }
}

/// Runs `body` on a disk of 1 ms.
pub(crate) fn journaled(journal: JournalOptions, body: impl FnOnce(&mut Process) + 'static) -> Ran {
    on_disk(MS, journal, body)
}

/// [`journaled`] on a disk with requests of `ns`.
fn on_disk(ns: u64, journal: JournalOptions, body: impl FnOnce(&mut Process) + 'static) -> Ran {
    run_on(&machine(2, ns), &kernel("2.6.25"), options(journal), 1, body)
}

/// A machine of `cpus` with a disk with requests of `ns`.
pub(crate) fn machine(cpus: usize, ns: u64) -> Preset {
    let mut machine = preset(cpus);
    machine.disk.latency_ns = ns as f64;
    machine
}

pub(crate) fn stats(k: &Process) -> JournalStats {
    k.world().journal_stats().expect("a journal is mounted")
}

/// Nanoseconds of `body`.
pub(crate) fn timed(k: &mut Process, body: impl FnOnce(&mut Process)) -> u64 {
    let start = k.now();
    body(k);
    k.now() - start
}

/// Whether `ns` are `requests` times the disk's millisecond and less than a tenth more.
pub(crate) fn takes(ns: u64, requests: u64) -> bool {
    (requests * MS..requests * MS + MS / 10).contains(&ns)
}

#[test]
fn fsync_waits_for_data_blocks_and_commit_record() {
    for (async_commit, metadata) in [(false, 2), (true, 1)] {
        journaled(JournalOptions { async_commit, ..JOURNAL }, move |k| {
            let fd = k.open("/tmp/a", Open::CREAT).unwrap();
            let ns = timed(k, |k| k.fsync(fd).unwrap());
            assert!(takes(ns, metadata), "an empty new file: {ns} ns");
            let ns = timed(k, |k| assert_eq!(k.write(fd, &[1; 8192]), Ok(8192)));
            assert!(ns < MS, "a write waits for nothing: {ns} ns");
            let ns = timed(k, |k| k.fsync(fd).unwrap());
            assert!(takes(ns, 1 + metadata), "two adjacent pages, one request: {ns} ns");
            let ns = timed(k, |k| k.fsync(fd).unwrap());
            assert!(ns < MS / 10, "nothing to write: {ns} ns");
            k.close(fd).unwrap();
        });
    }
}

#[test]
fn writes_under_o_sync_wait_for_the_disk_and_cost_nothing_on_tmpfs() {
    let body = |waits: bool| {
        move |k: &mut Process| {
            let fd = k.open("/tmp/a", Open::CREAT.synchronous()).unwrap();
            for _ in 0..3 {
                let ns = timed(k, |k| assert_eq!(k.write(fd, &[1; 1024]), Ok(1024)));
                assert_eq!(ns >= MS, waits, "{ns} ns");
            }
            k.close(fd).unwrap();
        }
    };
    journaled(JOURNAL, body(true));
    run(body(false));
}

/// `count` processes that each write a private file and sync it.
fn sync_storm(k: &mut Process, count: u32) {
    for number in 0..count {
        k.fork(move |k| {
            let fd = k.open(&format!("/tmp/{number}"), Open::CREAT).unwrap();
            k.write(fd, &[1; 1024]).unwrap();
            k.fsync(fd).unwrap();
            k.close(fd).unwrap();
            0
        })
        .unwrap();
    }
    for _ in 0..count {
        k.wait().unwrap();
    }
}

#[test]
fn a_request_may_take_longer_than_the_machine_waits_for_work() {
    on_disk(25_000 * MS, JOURNAL, |k| {
        let fd = k.open("/tmp/a", Open::CREAT).unwrap();
        let ns = timed(k, |k| k.fsync(fd).unwrap());
        assert!(ns >= 50_000 * MS, "blocks, then the record: {ns} ns");
        k.close(fd).unwrap();
    });
}

#[test]
fn the_machine_preset_says_how_long_a_request_takes() {
    let storm = |machine: &Preset| {
        let time = Rc::new(Cell::new(0));
        let result = Rc::clone(&time);
        let body = move |k: &mut Process| result.set(timed(k, |k| sync_storm(k, 4)));
        let ran = run_on(machine, &kernel("2.6.25"), options(JOURNAL), 1, body);
        (time.get(), ran.machine.hash())
    };
    let shipped = preset(2);
    let ns = shipped.disk.latency_ns as u64;
    let (once, twice) = (storm(&shipped), storm(&machine(2, 2 * ns)));
    assert!(twice.0 > once.0 * 19 / 10, "{once:?}, {twice:?}: the disk is what is waited for");
    assert_ne!(once.1, twice.1);
}

#[test]
fn those_who_sync_at_the_same_time_share_a_commit() {
    journaled(JOURNAL, |k| {
        sync_storm(k, 24);
        let stats = stats(k);
        assert!(stats.commits >= 2, "who comes during a commit takes the next one: {stats:?}");
        assert!(stats.commits <= 8, "{stats:?}");
    });
}

#[test]
fn a_transaction_commits_after_five_seconds_by_itself() {
    journaled(JOURNAL, |k| {
        let fd = k.open("/tmp/a", Open::CREAT).unwrap();
        k.write(fd, &[1; 1024]).unwrap();
        k.sleep(4_900 * MS);
        assert_eq!(stats(k).commits, 0);
        k.sleep(200 * MS);
        assert_eq!(stats(k).commits, 1);
        assert_eq!(stats(k).requests, 3, "data, blocks, record");
        k.close(fd).unwrap();
    });
}

#[test]
fn sync_writes_everything_and_a_removed_file_is_not_written() {
    journaled(JOURNAL, |k| {
        for name in ["/tmp/a", "/tmp/b"] {
            let fd = k.open(name, Open::CREAT).unwrap();
            k.write(fd, &[1; 4096]).unwrap();
            k.close(fd).unwrap();
        }
        k.unlink("/tmp/a").unwrap();
        k.sync().unwrap();
        let after = stats(k);
        assert_eq!((after.commits, after.requests), (1, 3), "data of one file, blocks, record");
        k.sync().unwrap();
        assert_eq!(stats(k).commits, 1, "nothing has changed since");
    });
}

#[test]
fn a_small_journal_makes_handles_wait_and_is_emptied_in_place() {
    let body = |k: &mut Process| {
        for child in 0..4 {
            k.fork(move |k| {
                for round in 0..60 {
                    let path = format!("/tmp/{child}-{round}");
                    let fd = k.open(&path, Open::CREAT).unwrap();
                    k.fsync(fd).unwrap();
                    k.close(fd).unwrap();
                    k.unlink(&path).unwrap();
                }
                0
            })
            .unwrap();
        }
        for _ in 0..4 {
            k.wait().unwrap();
        }
        let stats = stats(k);
        assert!(stats.waited > 0, "a removal and a truncation do not fit together: {stats:?}");
        assert!(stats.checkpoints > 0, "{stats:?}");
        assert_eq!(k.stat("/tmp").unwrap().links, 2);
    };
    let small = JournalOptions { blocks: 520, ..JOURNAL };
    for name in ["2.6.25", "3.7"] {
        run_on(&machine(2, MS), &kernel(name), options(small), 1, body);
    }
}

/// Time that four CPUs spin, in picoseconds, while four processes write pages of private files.
fn spinning(file_system: FileSystem) -> u64 {
    let preset = machine(4, 0);
    let machine = Machine::new(&preset, 1, 100).expect("address space");
    let options = Options { file_system, ..Options::default() };
    let world = World::new(&kernel("2.6.25"), &preset, &units(), options).expect("units");
    let spun = Rc::new(Cell::new(0));
    let result = Rc::clone(&spun);
    world.boot(&machine, move |k| {
        // Before the first ticks the loads of all CPUs are equal and children stay on the first.
        k.user("microsecond", 50_000, || ());
        for child in 0..4 {
            k.fork(move |k| {
                // What takes longer than all forks.
                k.user("microsecond", 1000, || ());
                let fd = k.open(&format!("/tmp/{child}"), Open::CREAT).unwrap();
                for _ in 0..400 {
                    k.write(fd, &[1; 1024]).unwrap();
                }
                k.close(fd).unwrap();
                0
            })
            .unwrap();
        }
        for _ in 0..4 {
            k.wait().unwrap();
        }
        result.set((0..4).map(|cpu| Here::times(cpu)[Mode::Spin as usize]).sum());
    });
    assert_eq!(machine.run(600_000_000_000), Outcome::Stopped);
    spun.get()
}

#[test]
fn writers_of_different_files_meet_at_the_journal() {
    let tmpfs = spinning(FileSystem::Tmpfs);
    let journal = spinning(FileSystem::Journal(JOURNAL));
    assert!(journal > 3 * tmpfs, "spinning {tmpfs} ps on tmpfs, {journal} ps with a journal");
}

#[test]
fn runs_repeat_and_the_other_form_of_the_state_lock_works() {
    let run = |vfs| {
        let kernel = KernelPreset { vfs, ..kernel("2.6.26-rc1") };
        run_on(&machine(2, MS), &kernel, options(JOURNAL), 7, |k| sync_storm(k, 12)).machine.hash()
    };
    let spinlock = VfsRules::default();
    let read_write = VfsRules { journal_state: StateLocks::ReadWrite, ..spinlock };
    assert_eq!(run(spinlock), run(spinlock));
    assert_ne!(run(spinlock), run(read_write));
}

/// ext4 finds the block of a page when the page is written out, so a file that is removed before
/// that has changed no bitmap of blocks, and a commit waits for none of its pages.
#[test]
fn ext4_finds_blocks_for_pages_that_are_written_out() {
    let commit = |disk| {
        let vfs = VfsRules { disk, ..VfsRules::default() };
        let kernel = KernelPreset { vfs, ..kernel("3.7") };
        let ran = run_on(&machine(2, MS), &kernel, options(JOURNAL), 1, |k| {
            let fd = k.open("/tmp/a", Open::CREAT).unwrap();
            k.write(fd, &[1; 8192]).unwrap();
            k.close(fd).unwrap();
            k.sync().unwrap();
        });
        ran.world.journal_stats().expect("a journal is mounted").requests
    };
    assert_eq!(commit(DiskRules::Ext3), 3, "data, blocks, record");
    assert_eq!(commit(DiskRules::Ext4), 2, "blocks, record");
    run_on(&machine(2, MS), &kernel("3.7"), options(JOURNAL), 1, |k| {
        let fd = k.open("/tmp/a", Open::CREAT).unwrap();
        k.write(fd, &[1; 8192]).unwrap();
        let ns = timed(k, |k| k.fsync(fd).unwrap());
        assert!(takes(ns, 3), "data, blocks, record: {ns} ns");
        k.close(fd).unwrap();
    });
}

/// With fewer free blocks than the error of the counts, 256 on two CPUs, ext4 does not delay
/// allocation: the commit first writes the pages of its transaction, except those of a deleted
/// file.
#[test]
fn ext4_delays_no_block_of_a_small_file_system() {
    let requests = |kib: u64, removed: bool| {
        let options = Options { tmpfs: kib << 10, ..options(JOURNAL) };
        let ran = run_on(&machine(2, MS), &kernel("3.7"), options, 1, move |k| {
            let fd = k.open("/tmp/a", Open::CREAT).unwrap();
            k.write(fd, &[1; 8192]).unwrap();
            k.close(fd).unwrap();
            if removed {
                k.unlink("/tmp/a").unwrap();
            }
            k.sync().unwrap();
        });
        assert_eq!(ran.world.tmpfs_pages(), if removed { 0 } else { 2 });
        ran.world.journal_stats().expect("a journal is mounted").requests
    };
    assert_eq!(requests(4096, false), 2, "blocks, record");
    assert_eq!(requests(512, false), 3, "data, blocks, record");
    assert_eq!(requests(512, true), 2, "no data");
}

/// On ext4 a page that has its block is written in place: no block of metadata changes, and a sync
/// has nothing to commit, unless the time stamp has.
#[test]
fn on_ext4_what_is_written_in_place_needs_no_commit() {
    run_on(&machine(2, 0), &kernel("3.7"), options(JOURNAL), 1, |k| {
        let fd = k.open("/tmp/a", Open::CREAT).unwrap();
        k.write(fd, &[1; 8192]).unwrap();
        k.fsync(fd).unwrap();
        let before = stats(k).commits;
        for _ in 0..10 {
            k.seek(fd, 0).unwrap();
            k.write(fd, &[2; 4096]).unwrap();
            k.fsync(fd).unwrap();
        }
        assert_eq!(stats(k).commits, before, "ten pages in place");
        k.seek(fd, 8192).unwrap();
        k.write(fd, &[3; 4096]).unwrap();
        k.fsync(fd).unwrap();
        assert_eq!(stats(k).commits, before + 1, "a third page");
        k.close(fd).unwrap();
    });
}

/// A task that changes a block while it is being written to the journal waits for the write: on a
/// disk of 1 ms, a second file in a directory while the first is being committed.
#[test]
fn on_ext4_a_block_that_is_being_written_is_waited_for() {
    let second = |disk| {
        let vfs = VfsRules { disk, ..VfsRules::default() };
        let kernel = KernelPreset { vfs, ..kernel("3.7") };
        let time = Rc::new(Cell::new(0));
        let result = Rc::clone(&time);
        run_on(&machine(2, MS), &kernel, options(JOURNAL), 1, move |k| {
            let fd = k.open("/tmp/a", Open::CREAT).unwrap();
            k.fork(move |k| {
                k.fsync(fd).unwrap();
                0
            })
            .unwrap();
            // The blocks are on their way, the record is not.
            k.sleep(MS / 2);
            result.set(timed(k, |k| {
                let fd = k.open("/tmp/b", Open::CREAT).unwrap();
                k.close(fd).unwrap();
            }));
            k.wait().unwrap();
            k.close(fd).unwrap();
        });
        time.get()
    };
    let (ext3, ext4) = (second(DiskRules::Ext3), second(DiskRules::Ext4));
    assert!(ext3 < MS / 10, "{ext3} ns");
    assert!((MS / 10..MS).contains(&ext4), "{ext4} ns: to the end of the blocks");
}

/// Files with equal labels count in one block, and all file systems find theirs through one cache.
#[test]
fn labels_are_counted_in_one_block_through_one_cache() {
    let run = |labels: bool, volumes: usize| {
        let taken = Rc::new(Cell::new(0));
        let result = Rc::clone(&taken);
        let options = Options { volumes, ..options(JournalOptions { labels, ..JOURNAL }) };
        let ran = run_on(&machine(4, 0), &kernel("3.7"), options, 1, move |k| {
            result.set(timed(k, |k| {
                for child in 0..4 {
                    let path = format!("{}/{child}", volume_path(child % volumes));
                    k.fork(move |k| {
                        for _ in 0..100 {
                            let fd = k.open(&path, Open::CREAT).unwrap();
                            k.close(fd).unwrap();
                            k.unlink(&path).unwrap();
                        }
                        0
                    })
                    .unwrap();
                }
                for _ in 0..4 {
                    k.wait().unwrap();
                }
            }));
            k.sync().unwrap();
        });
        let stats = ran.world.journal_stats().expect("a journal is mounted");
        (stats.blocks, taken.get(), ran.machine.hash())
    };
    for volumes in [1, 4] {
        let (without, with) = (run(false, volumes), run(true, volumes));
        assert!(with.0 > without.0, "{} blocks with labels, {} without", with.0, without.0);
        assert!(with.1 > without.1, "{} ns with labels, {} without", with.1, without.1);
        assert_eq!(with, run(true, volumes));
    }
}

#[test]
fn several_file_systems_share_nothing() {
    let options = Options { volumes: 3, ..options(JOURNAL) };
    run_on(&machine(2, 0), &kernel("3.7"), options, 1, |k| {
        for index in 0..3 {
            let path = format!("{}/a", convoy_kernel::volume_path(index));
            let fd = k.open(&path, Open::CREAT).unwrap();
            k.write(fd, &[1; 1024]).unwrap();
            k.close(fd).unwrap();
        }
        assert_eq!(k.link("/tmp/a", "/t1/b"), Err(Errno::EPERM), "another file system");
        k.sync().unwrap();
        assert_eq!(stats(k).commits, 3, "each has a journal");
    });
}

/// Up to 4.1 a handle locks a block of its own transaction like any other: 14 locked operations
/// where 4.2 has four reads. `creat` of an empty file changes six blocks: the superblock's and the
/// inode's on the list of orphans and off it, and the inode's twice.
#[test]
fn on_ext4_a_block_is_locked_each_time_up_to_4_1() {
    let operations = |buffers, rounds: u64| {
        let vfs = VfsRules { buffers, ..kernel("3.7").vfs };
        let kernel = KernelPreset { vfs, ..kernel("3.7") };
        let ran = run_on(&machine(2, 0), &kernel, options(JOURNAL), 1, move |k| {
            for _ in 0..rounds {
                let fd = k.open("/tmp/a", Open::CREAT).unwrap();
                k.close(fd).unwrap();
            }
        });
        ran.machine.operations()
    };
    let each = |buffers| (operations(buffers, 300) - operations(buffers, 100)) / 200;
    let more = each(BufferLocks::EachTime) - each(BufferLocks::LookFirst);
    // Of each block also four writes of what the journal knows of it.
    assert!((6 * 13..=6 * 15).contains(&more), "{more} operations");
}

/// A task that holds a directory's mutex while it sorts the names yields the CPU to a task that a
/// tick wakes, if preemption is voluntary.
#[test]
fn on_ext4_who_lists_a_directory_may_be_preempted() {
    // Between the earliest and the latest that the sleeper runs after a tick.
    let spread = |preempt| {
        let mut kernel = kernel("3.7");
        kernel.config.preempt = preempt;
        let times = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&times);
        run_on(&machine(1, 0), &kernel, options(JOURNAL), 1, move |k| {
            for name in 0..600 {
                let fd = k.open(&format!("/tmp/{name}"), Open::CREAT).unwrap();
                k.close(fd).unwrap();
            }
            k.fork(move |k| {
                for _ in 0..100 {
                    k.sleep(MS);
                    seen.borrow_mut().push(k.now());
                }
                0
            })
            .unwrap();
            let fd = k.open("/tmp", Open::READ).unwrap();
            for _ in 0..3000 {
                while k.read_directory(fd).unwrap() > 0 {}
                k.seek(fd, 0).unwrap();
            }
            k.close(fd).unwrap();
            k.wait().unwrap();
        });
        let times = times.borrow();
        let phases = times[1..].iter().map(|now| (now + MS / 2 - times[0]) % MS);
        phases.clone().max().unwrap() - phases.min().unwrap()
    };
    let (voluntary, none) = (spread(Preempt::Voluntary), spread(Preempt::None));
    assert!(2 * voluntary < none, "{voluntary} ns, without voluntary preemption {none} ns");
}
