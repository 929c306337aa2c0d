//! Sleeps in system calls that wait for a lock of the kernel, as an ordinary user sees them: the
//! file `wchan` of a sleeping thread names the innermost kernel function outside of the scheduler
//! and of the functions that acquire locks, so it names the function that acquires the lock.

use serde::{Deserialize, Serialize};

/// Numbers of the system calls that wait for other threads or for a device. Others, such as
/// read(2), may wait for any event: write, lseek, mmap, mprotect, munmap, brk, pwrite64, writev,
/// mremap, madvise, open, truncate, ftruncate, rename, mkdir, rmdir, creat, link, unlink, symlink,
/// openat, mkdirat, unlinkat, renameat, linkat, pwritev and renameat2.
const CALLS: [i64; 27] = [
    1, 8, 9, 10, 11, 12, 18, 20, 25, 28, 2, 76, 77, 82, 83, 84, 85, 86, 87, 88, 257, 258, 263, 264,
    265, 296, 316,
];
/// Number of read(2).
pub(crate) const READ: i64 = 0;
/// Stands for a page fault in place of a system call.
pub(crate) const FAULT: i64 = -1;
/// Functions of Linux 5.4 to 6.18 that acquire the lock of such an object.
const FUNCTIONS: [(KernelObject, &[&str]); 4] = [
    (
        KernelObject::AddressSpace,
        &[
            "vm_munmap",
            "do_munmap",
            "munmap",
            "vm_mmap_pgoff",
            "brk",
            "vm_brk_flags",
            "mprotect",
            "do_mprotect_pkey",
            "madvise",
            "do_madvise",
            "madvise_lock",
            "mremap",
            "do_mremap",
            "lock_mm_and_find_vma",
            "get_mmap_lock_carefully",
            "do_user_addr_fault",
        ],
    ),
    (KernelObject::FilePosition, &["fdget_pos"]),
    (
        KernelObject::File,
        &[
            "ext4_buffered_write_iter",
            "ext4_file_write_iter",
            "ext4_dio_write_iter",
            "generic_file_write_iter",
            "shmem_file_write_iter",
            "xfs_ilock",
            "xfs_file_buffered_write",
            "btrfs_inode_lock",
            "btrfs_buffered_write",
            "f2fs_file_write_iter",
            "ovl_write_iter",
            "fuse_file_write_iter",
            "fuse_cache_write_iter",
            "nfs_start_io_write",
            "do_truncate",
        ],
    ),
    (
        KernelObject::Directory,
        &[
            "do_renameat2",
            "lock_rename",
            "lock_two_directories",
            "start_renaming",
            "start_dirop",
            "start_creating",
            "start_removing",
            "do_unlinkat",
            "do_rmdir",
            "filename_create",
            "open_last_lookups",
            "path_openat",
            "lookup_slow",
        ],
    ),
];
/// Beginnings of functions that wait for a device.
const DEVICES: [&str; 10] = [
    "submit_bio",
    "folio_wait",
    "wait_on_page",
    "io_schedule",
    "balance_dirty",
    "wait_on_b",
    "bit_wait",
    "blk_",
    "rq_qos",
    "request_wait_answer",
];

/// What a lock of the kernel protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelObject {
    /// The address space of a process.
    AddressSpace,
    /// The position in an open file that threads share.
    FilePosition,
    /// A file.
    File,
    /// A directory.
    Directory,
    /// An eventfd, or a pipe with both ends in the process: other threads write the data.
    Pipe,
    /// Not known: it may be a lock or a device.
    Unknown,
}

/// Sampled threads that waited for the kernel in a system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelWait {
    /// The system call; empty for a page fault.
    pub call: String,
    /// What it waited for.
    pub object: KernelObject,
    /// The function of the program that made the call; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Number of samples.
    pub samples: u64,
}

/// Returns whether a sleep in this system call can be a wait for a lock of the kernel.
pub(crate) fn may_wait(call: i64) -> bool {
    CALLS.contains(&call)
}

/// Returns what the thread waits for, by the contents of its file `wchan`. `None` if it waits for a
/// device or does not sleep any longer.
pub(crate) fn object(function: &str) -> Option<KernelObject> {
    /// Beginnings that the definition of a system call adds.
    const PREFIXES: [&str; 4] = ["x64_sys_", "arm64_sys_", "do_sys_", "se_sys_"];
    let name = function.trim().split('.').next()?.trim_start_matches('_');
    let name = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    if name == "0" || DEVICES.iter().any(|begin| name.starts_with(begin)) {
        return None;
    }
    let known = FUNCTIONS.iter().find(|(_, functions)| functions.contains(&name));
    Some(known.map_or(KernelObject::Unknown, |(object, _)| *object))
}

/// Returns whether a thread that sleeps in this function waits for data in a pipe or an eventfd.
pub(crate) fn is_pipe(function: &str) -> bool {
    ["pipe_read", "anon_pipe_read", "pipe_wait", "eventfd_read"].contains(&function.trim())
}

/// Returns whether a process also has the end for writing of a file that it reads: of a pipe, or an
/// eventfd.
pub(crate) fn writes_to(pid: u32, file: u64) -> Option<bool> {
    /// `O_WRONLY` and `O_RDWR`.
    const WRITES: u32 = 1 | 2;
    let files = format!("/proc/{pid}/fd");
    let object = std::fs::read_link(format!("{files}/{file}")).ok()?;
    let others = std::fs::read_dir(files).ok()?.flatten();
    let same = others.filter(|other| std::fs::read_link(other.path()).is_ok_and(|at| at == object));
    let mut flags = same.filter_map(|other| {
        let info = format!("/proc/{pid}/fdinfo/{}", other.file_name().to_str()?);
        let text = std::fs::read_to_string(info).ok()?;
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(flags.trim(), 8).ok()
    });
    Some(flags.any(|flags| flags & WRITES != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_the_kernel_differ_from_devices() {
        for (function, expected) in [
            ("__vm_munmap", Some(KernelObject::AddressSpace)),
            ("__do_sys_brk", Some(KernelObject::AddressSpace)),
            ("fdget_pos", Some(KernelObject::FilePosition)),
            ("do_renameat2\n", Some(KernelObject::Directory)),
            ("ext4_buffered_write_iter.isra.0", Some(KernelObject::File)),
            ("submit_bio_wait", None),
            ("folio_wait_bit_common", None),
            ("0", None),
            ("", Some(KernelObject::Unknown)),
            ("some_other_function", Some(KernelObject::Unknown)),
        ] {
            assert_eq!(object(function), expected, "{function}");
        }
        assert!(may_wait(82) && !may_wait(READ));
    }

    #[test]
    fn a_process_writes_to_a_pipe_of_which_it_has_both_ends() {
        use std::os::fd::AsRawFd;

        let (reader, writer) = std::io::pipe().expect("a pipe");
        let file = reader.as_raw_fd() as u64;
        assert_eq!(writes_to(std::process::id(), file), Some(true));
        drop(writer);
        assert_eq!(writes_to(std::process::id(), file), Some(false));
        assert!(is_pipe("anon_pipe_read\n") && !is_pipe("do_epoll_wait"));
    }
}
