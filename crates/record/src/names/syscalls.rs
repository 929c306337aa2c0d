//! Names of the x86-64 system calls in which threads sleep.

/// Numbers and names, in ascending order.
const NAMES: [(i64, &str); 86] = [
    (0, "read"),
    (1, "write"),
    (3, "close"),
    (7, "poll"),
    (8, "lseek"),
    (9, "mmap"),
    (10, "mprotect"),
    (11, "munmap"),
    (12, "brk"),
    (16, "ioctl"),
    (17, "pread64"),
    (18, "pwrite64"),
    (19, "readv"),
    (20, "writev"),
    (23, "select"),
    (24, "sched_yield"),
    (25, "mremap"),
    (26, "msync"),
    (28, "madvise"),
    (29, "shmget"),
    (34, "pause"),
    (35, "nanosleep"),
    (40, "sendfile"),
    (42, "connect"),
    (43, "accept"),
    (44, "sendto"),
    (45, "recvfrom"),
    (46, "sendmsg"),
    (47, "recvmsg"),
    (56, "clone"),
    (57, "fork"),
    (58, "vfork"),
    (59, "execve"),
    (61, "wait4"),
    (64, "semget"),
    (65, "semop"),
    (69, "msgsnd"),
    (70, "msgrcv"),
    (72, "fcntl"),
    (73, "flock"),
    (74, "fsync"),
    (75, "fdatasync"),
    (76, "truncate"),
    (77, "ftruncate"),
    (78, "getdents"),
    (82, "rename"),
    (83, "mkdir"),
    (84, "rmdir"),
    (85, "creat"),
    (86, "link"),
    (87, "unlink"),
    (88, "symlink"),
    (128, "rt_sigtimedwait"),
    (130, "rt_sigsuspend"),
    (162, "sync"),
    (165, "mount"),
    (187, "readahead"),
    (202, "futex"),
    (208, "io_getevents"),
    (217, "getdents64"),
    (220, "semtimedop"),
    (221, "fadvise64"),
    (230, "clock_nanosleep"),
    (232, "epoll_wait"),
    (242, "mq_timedsend"),
    (243, "mq_timedreceive"),
    (247, "waitid"),
    (257, "openat"),
    (263, "unlinkat"),
    (264, "renameat"),
    (270, "pselect6"),
    (271, "ppoll"),
    (275, "splice"),
    (277, "sync_file_range"),
    (281, "epoll_pwait"),
    (285, "fallocate"),
    (288, "accept4"),
    (295, "preadv"),
    (296, "pwritev"),
    (299, "recvmmsg"),
    (306, "syncfs"),
    (307, "sendmmsg"),
    (326, "copy_file_range"),
    (426, "io_uring_enter"),
    (435, "clone3"),
    (441, "epoll_pwait2"),
];

/// Returns the name of a system call with its manual section, such as `fdatasync(2)`.
pub(crate) fn name(number: i64) -> String {
    match NAMES.binary_search_by_key(&number, |(known, _)| *known) {
        Ok(at) => format!("{}(2)", NAMES[at].1),
        Err(_) => format!("system call {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_numbers() {
        assert!(NAMES.is_sorted_by_key(|(number, _)| *number));
        assert_eq!(name(75), "fdatasync(2)");
        assert_eq!(name(9999), "system call 9999");
    }
}
