//! `impl Kernel for Process`: the system calls, each entering and leaving the kernel.

use crate::process::Process;
use convoy_machine::Here;
use convoy_workload::api::{
    Exit, Fd, Kernel, Open, Pid, Program, Query, Signal, SocketKind, Stat, Sys, Transfers,
};
use convoy_workload::{Errno, api};

impl Process {
    /// `fsync`.
    pub fn fsync(&mut self, fd: Fd) -> Sys<()> {
        self.call("fsync", || self.files.sync(fd))
    }

    /// `sync`, and 1 into `/proc/sys/vm/drop_caches`.
    pub fn drop_caches(&mut self) {
        self.call("write", || self.world.drop_caches());
    }

    /// `open`.
    pub(crate) fn open_file(&self, path: &str, flags: Open) -> Sys<Fd> {
        self.call("open", || {
            self.files.room_for(1)?;
            Ok(self.files.install(self.paths.open(path, flags)?))
        })
    }

    /// `open` of one end of a fifo.
    fn open_fifo_end(&self, path: &str, writer: bool) -> Sys<Fd> {
        self.call("open", || {
            self.files.room_for(1)?;
            Ok(self.files.install(self.paths.open_fifo(path, writer)?))
        })
    }

    fn run_query(&self, query: Query) {
        let world = &*self.world;
        match query {
            Query::WorkingDirectory => self.call("getcwd", || self.paths.working_directory()),
            Query::Ids => {
                (0..8).for_each(|_| self.call("getuid", || Here::pass(world.costs.getpid)));
            }
            Query::UserDatabase => (0..3).for_each(|_| self.look_up_user()),
            Query::System => {
                (0..2).for_each(|_| self.call("uname", || Here::pass(world.costs.query_system)));
            }
            Query::Terminal => {
                for _ in 0..2 {
                    self.call("ioctl", || self.standard_ioctl());
                }
                if world.options.terminal_input() {
                    self.call("readlink", || self.own_proc_entry());
                    // The name that /proc gave is compared with the file's.
                    let _found = self.call("stat", || self.paths.stat("/dev/tty"));
                }
            }
        }
    }
}

impl Kernel for Process {
    fn user(&mut self, unit: &'static str, count: u64, _: impl FnOnce()) {
        self.user_time(self.world.unit_ps(unit, count));
    }

    fn open(&mut self, path: &str, flags: Open) -> Sys<Fd> {
        self.open_file(path, flags)
    }

    fn close(&mut self, fd: Fd) -> Sys<()> {
        self.call("close", || self.files.close(fd))
    }

    fn read(&mut self, fd: Fd, buffer: &mut [u8]) -> Sys<usize> {
        self.call("read", || self.files.read(fd, buffer))
    }

    fn write(&mut self, fd: Fd, buffer: &[u8]) -> Sys<usize> {
        self.call("write", || self.files.write(fd, buffer))
    }

    fn seek(&mut self, fd: Fd, offset: u64) -> Sys<u64> {
        self.call("lseek", || self.files.seek(fd, offset))
    }

    fn link(&mut self, old: &str, new: &str) -> Sys<()> {
        self.call("link", || self.paths.link(old, new))
    }

    fn symlink(&mut self, target: &str, path: &str) -> Sys<()> {
        self.call("symlink", || self.paths.symlink(target, path))
    }

    fn rename(&mut self, old: &str, new: &str) -> Sys<()> {
        self.call("rename", || self.paths.rename(old, new))
    }

    fn unlink(&mut self, path: &str) -> Sys<()> {
        self.call("unlink", || self.paths.remove(path, false))
    }

    fn stat(&mut self, path: &str) -> Sys<Stat> {
        self.call("stat", || self.paths.stat(path))
    }

    fn mkdir(&mut self, path: &str) -> Sys<()> {
        self.call("mkdir", || self.paths.make_directory(path))
    }

    fn rmdir(&mut self, path: &str) -> Sys<()> {
        self.call("rmdir", || self.paths.remove(path, true))
    }

    fn chdir(&mut self, path: &str) -> Sys<()> {
        self.call("chdir", || self.paths.change_directory(path))
    }

    fn read_directory(&mut self, fd: Fd) -> Sys<usize> {
        self.call("getdents", || self.files.read_directory(fd))
    }

    fn forget(&mut self, path: &str) -> Sys<()> {
        self.call("fadvise", || self.paths.forget(path))
    }

    fn sync(&mut self) -> Sys<()> {
        self.call("sync", || self.world.sync_all());
        Ok(())
    }

    fn asynchronous(&mut self, _fd: Fd, _transfers: &Transfers<'_>) -> Sys<()> {
        self.call("io_submit", || Err(Errno::ENOSYS))
    }

    fn pipe(&mut self) -> Sys<(Fd, Fd)> {
        self.call("pipe", || self.files.pipe())
    }

    fn make_fifo(&mut self, path: &str) -> Sys<()> {
        self.call("mknod", || self.paths.make_fifo(path))
    }

    fn open_fifo(&mut self, path: &str) -> Sys<(Fd, Fd)> {
        let read_end = self.open_fifo_end(path, false)?;
        match self.open_fifo_end(path, true) {
            Ok(write_end) => {
                // `fcntl(F_SETFL)`, which clears `O_NONBLOCK`.
                self.call("open", || self.world.tiny_section());
                Ok((read_end, write_end))
            }
            Err(errno) => {
                // The descriptor was just opened.
                let _infallible = self.call("open", || self.files.close(read_end));
                Err(errno)
            }
        }
    }

    fn sockets(&mut self, kind: SocketKind) -> Sys<(Fd, Fd)> {
        self.call("socketpair", || self.files.sockets(kind))
    }

    fn shm_create(&mut self, bytes: usize) -> Sys<i32> {
        self.call("shmget", || self.create_segment(bytes))
    }

    fn shm_copy(&mut self, id: i32, offset: usize, bytes: usize, _: bool) -> Sys<()> {
        // Not a system call: the user program copies, and faults where a page is missing.
        self.copy_segment(id, offset, bytes)
    }

    fn shm_remove(&mut self, id: i32) -> Sys<()> {
        self.call("shmctl", || self.remove_segment(id))
    }

    fn sem_create(&mut self, value: i32) -> Sys<i32> {
        self.call("semget", || self.create_set(value))
    }

    fn sem_op(&mut self, id: i32, delta: i32) -> Sys<()> {
        self.call("semop", || self.operate(id, delta))
    }

    fn sem_remove(&mut self, id: i32) -> Sys<()> {
        self.call("semctl", || self.remove_set(id))
    }

    fn sbrk(&mut self, delta: isize) -> Sys<()> {
        self.call("brk", || self.mm.brk(delta as i64, &self.world.zones, &self.world.costs))
    }

    fn touch_heap(&mut self, bytes: usize, stride: usize) -> Sys<()> {
        let world = &*self.world;
        let before = self.mm.owned();
        let result = self.mm.touch_heap(bytes as u64, stride as u64, &world.zones, &world.costs);
        let faults = self.mm.owned().saturating_sub(before);
        world.counts.faults.set(world.counts.faults.get() + u64::from(faults));
        self.leave();
        result
    }

    fn pid(&mut self) -> Pid {
        self.call("getpid", || {
            Here::pass(self.world.costs.getpid);
            self.me.pid
        })
    }

    fn kill(&mut self, pid: Pid, signal: Signal) -> Sys<()> {
        self.call("kill", || self.send_signal(pid, signal))
    }

    fn catch(&mut self, signal: Signal) -> Sys<()> {
        self.call("sigaction", || self.catch_signal(signal))
    }

    fn caught(&mut self) -> u64 {
        self.handlers.caught()
    }

    fn fork(&mut self, child: impl FnOnce(&mut Self) -> i32 + 'static) -> Sys<Pid> {
        self.call("fork", || self.fork_process(Box::new(child)))
    }

    fn exec(&mut self, program: Program, argument: &str) -> Errno {
        let code = self.run_program(program, argument);
        self.die(Exit::Code(code))
    }

    fn become_image(&mut self, image: &api::Image<'_>) -> Sys<()> {
        self.start_image(image)
    }

    fn wait(&mut self) -> Sys<(Pid, Exit)> {
        self.call("wait", || self.wait_for_child())
    }

    fn query(&mut self, query: Query) -> Sys<()> {
        self.run_query(query);
        Ok(())
    }

    fn now(&mut self) -> u64 {
        Here::now_ns()
    }

    fn sleep(&mut self, ns: u64) {
        self.call("nanosleep", || self.world.sched.sleep_until(Here::now_ns() + ns));
    }
}
