//! Files of which only the disk has pages, through the system calls.

use super::journal::{JOURNAL, MS, journaled, stats, takes, timed};
use convoy_kernel::Process;
use convoy_workload::api::{Image, Kernel, Open};

/// Makes a file of `pages` pages, of which nothing is in memory.
fn cold_file(k: &mut Process, path: &str, pages: usize) {
    let fd = k.open(path, Open::CREAT).unwrap();
    assert_eq!(k.write(fd, &vec![7; pages << 12]), Ok(pages << 12));
    k.close(fd).unwrap();
    k.forget(path).unwrap();
}

/// Requests to the disk in `body`, and how long it took.
fn requests(k: &mut Process, body: impl FnOnce(&mut Process)) -> (u64, u64) {
    let before = stats(k).requests;
    let ns = timed(k, body);
    (stats(k).requests - before, ns)
}

#[test]
fn a_forgotten_file_comes_from_the_disk_in_windows_that_grow() {
    journaled(JOURNAL, |k| {
        cold_file(k, "/tmp/a", 64);
        let read = |k: &mut Process| {
            let fd = k.open("/tmp/a", Open::READ).unwrap();
            for _ in 0..64 {
                assert_eq!(k.read(fd, &mut [0; 4096]), Ok(4096));
            }
            assert_eq!(k.read(fd, &mut [0; 4096]), Ok(0));
            k.close(fd).unwrap();
        };
        // 4, 8, 16, 32 pages, and the 4 that are left; the disk is never idle.
        let (count, ns) = requests(k, read);
        assert_eq!(count, 5);
        assert!(takes(ns, 5), "{ns} ns");
        let (count, ns) = requests(k, read);
        assert!(count == 0 && ns < MS / 10, "from memory: {count} requests, {ns} ns");
        // Two read one file: who comes second waits for the request of the first.
        k.forget("/tmp/a").unwrap();
        let (count, _) = requests(k, |k| {
            k.fork(move |k| {
                read(k);
                0
            })
            .unwrap();
            read(k);
            k.wait().unwrap();
        });
        assert_eq!(count, 5);
        k.unlink("/tmp/a").unwrap();
    });
}

#[test]
fn a_write_to_a_cold_page_reads_it_unless_it_is_written_whole() {
    journaled(JOURNAL, |k| {
        let used = k.world().tmpfs_pages();
        cold_file(k, "/tmp/a", 16);
        assert_eq!(k.world().tmpfs_pages(), used + 16, "its blocks are still its own");
        let write = |at: u64, bytes: usize| {
            move |k: &mut Process| {
                let fd = k.open("/tmp/a", Open::WRITE).unwrap();
                k.seek(fd, at).unwrap();
                assert_eq!(k.write(fd, &vec![1; bytes]), Ok(bytes));
                k.close(fd).unwrap();
            }
        };
        assert_eq!(requests(k, write(5 << 12, 4096)).0, 0, "a whole page");
        let (count, ns) = requests(k, write(9 << 12, 100));
        assert!(count == 1 && takes(ns, 1), "a part of one: {count} requests, {ns} ns");
        assert_eq!(k.world().tmpfs_pages(), used + 16);
        k.unlink("/tmp/a").unwrap();
        assert_eq!(k.world().tmpfs_pages(), used, "cold pages give their blocks back too");
    });
}

#[test]
fn a_cold_program_is_read_around_its_faults() {
    journaled(JOURNAL, |k| {
        cold_file(k, "/tmp/program", 64);
        k.drop_caches();
        let start = |k: &mut Process| {
            let image = Image { path: "/tmp/program", file_pages: 40, memory_pages: 1 };
            k.become_image(&image).unwrap();
        };
        // Pages 0 to 31 at the first fault, 32 to 47 of 16 to 47 at the fault on page 32.
        let (count, ns) = requests(k, start);
        assert!(count == 2 && ns > 2 * MS, "{count} requests, {ns} ns");
        assert_eq!(requests(k, start).0, 0);
        k.unlink("/tmp/program").unwrap();
    });
}
