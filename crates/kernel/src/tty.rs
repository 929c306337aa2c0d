//! The controlling terminal, `/dev/null` and /proc: where these paths take the big kernel lock.
//!
//! | site | 2.6.25 | 2.6.26-rc1 |
//! |---|---|---|
//! | open of a character device | yes | yes |
//! | release of a terminal file | yes | yes |
//! | terminal ioctl | yes | no |
//! | look-up and release of a static /proc entry | yes | yes |
//! | `F_SETFL` | yes | yes |

use crate::process::Process;
use crate::vfs::Dentry;
use crate::world::World;
use convoy_machine::{Here, ps};
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use std::rc::Rc;

impl World {
    /// Open files of the controlling terminal; descriptors that `fork` copied do not count.
    pub fn terminal_files(&self) -> u32 {
        self.terminal.files.get()
    }

    /// A third of the time for which a terminal's open or release holds the big kernel lock.
    fn terminal_third(&self) {
        Here::pass(ps(self.traffic.hold_tty_ns) / 3);
    }

    /// Counts the open files of the terminal: a walk of its list under `files_lock`.
    fn count_terminal_files(&self) {
        self.vfs.hot.files.hold(|list| {
            list.read();
            Here::pass(self.costs.tty_file * u64::from(self.terminal.files.get()));
        });
    }

    /// `open` of `/dev/tty`: `chrdev_open` under the big kernel lock, `tty_mutex` twice inside.
    pub(crate) fn terminal_open(&self) -> Sys<()> {
        self.big_kernel_lock(|| {
            if !self.options.terminal {
                Here::pass(self.costs.bkl_tiny);
                return Err(Errno::ENXIO);
            }
            self.under(self.processes.tty_mutex(), || self.terminal_third());
            self.under(self.processes.tty_mutex(), || {
                self.terminal_third();
                self.terminal.files.set(self.terminal.files.get() + 1);
                self.terminal.hot.write(self.terminal.files.get());
            });
            self.count_terminal_files();
            self.terminal_third();
            Ok(())
        })
    }

    /// Release of a terminal file.
    pub(crate) fn terminal_release(&self) {
        self.big_kernel_lock(|| {
            self.terminal_third();
            self.count_terminal_files();
            self.under(self.processes.tty_mutex(), || {
                self.terminal_third();
                self.terminal.files.set(self.terminal.files.get() - 1);
                self.terminal.hot.write(self.terminal.files.get());
            });
            self.terminal_third();
        });
    }

    /// `open` of `/dev/null`: `chrdev_open` takes the big kernel lock around the driver's `open`.
    pub(crate) fn open_null(&self) {
        self.big_kernel_lock(|| Here::pass(self.costs.bkl_tiny));
    }

    /// `fcntl(F_SETFL)` and other sections of the shortest kind.
    pub(crate) fn tiny_section(&self) {
        self.big_kernel_lock(|| Here::pass(self.costs.bkl_tiny));
    }

    fn short_section(&self) {
        self.big_kernel_lock(|| Here::pass(ps(self.traffic.hold_short_ns)));
    }

    /// `ioctl` on the terminal.
    pub(crate) fn terminal_ioctl(&self) {
        if self.traffic.terminal_ioctl {
            self.short_section();
        }
        Here::pass(self.costs.tty_ioctl);
    }

    fn proc_directory(&self) -> Rc<Dentry> {
        self.tree.root.child("proc").expect("every system has one")
    }

    /// Look-up of a static entry of /proc, which is never cached.
    pub(crate) fn proc_lookup(&self) {
        Here::pass(self.costs.proc_open);
        let directory = self.proc_directory();
        self.under(&directory.inode.hot.mutex, || {
            self.vfs.names_of(&directory, || directory.hot.name.read());
            self.short_section();
        });
    }

    /// Release of a static entry of /proc.
    pub(crate) fn proc_release(&self) {
        self.vfs.names_of(&self.proc_directory(), || ());
        self.tiny_section();
        self.vfs.list_anonymous_inode(false);
    }
}

impl Process {
    /// `ioctl` on file 0.
    pub(crate) fn standard_ioctl(&self) {
        if self.world.options.terminal {
            self.world.terminal_ioctl();
        } else {
            Here::pass(self.world.costs.tty_ioctl);
        }
    }

    /// The process's own entry in /proc: looked up once.
    pub(crate) fn own_proc_entry(&self) {
        if self.proc_entry_missing.replace(false) {
            self.world.proc_lookup();
        } else {
            Here::pass(self.world.costs.proc_open);
        }
    }
}
