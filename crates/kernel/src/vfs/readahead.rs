//! Reading pages of files that are on the disk and not in memory.
//!
//! `read` reads ahead as Linux 2.6.17 does (`mm/readahead.c`): in a sequential file the next window
//! is in transfer while the previous one is used, each at least twice as long, up to 128 KiB. A
//! page fault on a file reads 16 pages before and after its own (`filemap_nopage`). Pages for
//! readahead are allocated from the cold lists of the page allocator, since they are not accessed
//! soon. Adjacent pages are one request.
//!
//! Not here: the on-demand algorithm of 2.6.23, which reads the same windows of a file that is read
//! in order; blocks of inodes and directories, which are in memory.

use super::Kind;
use super::dentry::Inode;
use super::file::File;
use crate::block::{Batch, Disk};
use crate::pages::Pages;
use crate::process::Process;
use crate::world::World;
use crate::zone::Use;
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use std::rc::Rc;

/// Longest window, pages (`VM_MAX_READAHEAD`, 128 KiB).
const MOST: u64 = 32;

/// Pages of a file that memory lacks.
#[derive(Default)]
pub(crate) struct Cold {
    pages: Pages,
    left: u64,
    /// Those on their way, with the request that brings them: first and last.
    reading: Vec<(u64, u64, Rc<Batch>)>,
}

impl Cold {
    /// Takes `page` out of the set; whether it was in it.
    fn take(&mut self, page: u64) -> bool {
        let there = self.pages.remove(page);
        self.left -= u64::from(there);
        there
    }
}

/// How far an open file has been read ahead (`struct file_ra_state`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    start: u64,
    size: u64,
    ahead_start: u64,
    ahead_size: u64,
    /// Page after the last read page.
    next: u64,
}

impl Window {
    /// First window for a read of `pages` pages (`get_init_ra_size`).
    fn first(pages: u64) -> u64 {
        let size = pages.next_power_of_two();
        if size <= MOST / 32 {
            size * 4
        } else if size <= MOST / 4 {
            size * 2
        } else {
            MOST
        }
    }

    /// The window after this one (`get_next_ra_size`).
    fn following(self) -> u64 {
        let times = if self.size < MOST / 16 { 4 } else { 2 };
        (times * self.size).min(MOST)
    }

    /// Puts the window ahead behind this one; where it is.
    fn look_ahead(&mut self) -> (u64, u64) {
        self.ahead_size = self.following();
        self.ahead_start = self.start + self.size;
        (self.ahead_start, self.ahead_size)
    }

    /// Handles a read of `wanted` pages from `offset` on: calls `submit` for each window, with its
    /// first page and its length, and returns the page at which the next call is due
    /// (`page_cache_readahead`).
    fn read(&mut self, offset: u64, wanted: u64, mut submit: impl FnMut((u64, u64))) -> u64 {
        let again = u64::from(offset + 1 == self.next);
        let (offset, wanted) = (offset + again, wanted - again);
        if wanted == 0 {
            return self.next;
        }
        let sequential = offset == self.next;
        let size = wanted.min(MOST);
        self.next = offset + size;
        if !sequential {
            *self = Self { next: self.next, ..Self::default() };
            submit((offset, size));
        } else if self.size == 0 {
            (self.start, self.size) = (offset, Self::first(size));
            submit((self.start, self.size));
            if wanted >= MOST {
                submit(self.look_ahead());
            }
        } else {
            if self.ahead_size == 0 {
                submit(self.look_ahead());
            }
            if self.next > self.ahead_start {
                (self.start, self.size) = (self.ahead_start, self.ahead_size);
                submit(self.look_ahead());
            }
        }
        self.next
    }
}

impl Inode {
    /// Whether memory may lack a page of it.
    pub(super) fn may_be_cold(&self) -> bool {
        self.cold.borrow().is_some()
    }

    /// Whether the disk has a page of it and memory has not.
    pub(super) fn is_cold(&self, page: u64) -> bool {
        self.cold.borrow().as_ref().is_some_and(|cold| cold.pages.contains(page))
    }

    /// The request that brings `page`, if one does.
    fn request_of(&self, page: u64) -> Option<Rc<Batch>> {
        let cold = self.cold.borrow();
        let mut reading = cold.as_ref()?.reading.iter();
        let of = |(first, last, batch): &(u64, u64, Rc<Batch>)| {
            (*first..=*last).contains(&page).then(|| Rc::clone(batch))
        };
        reading.find_map(of)
    }

    /// Forgets requests that are done, and with the last cold page that there were any.
    fn settle(&self) {
        let mut kept = self.cold.borrow_mut();
        let Some(cold) = kept.as_mut() else { return };
        cold.reading.retain(|(_, _, batch)| !batch.is_done());
        if cold.left == 0 && cold.reading.is_empty() {
            *kept = None;
        }
    }

    /// Waits for all requests of its pages.
    fn wait_for_requests(&self) {
        let first = || {
            let cold = self.cold.borrow();
            cold.as_ref()
                .and_then(|cold| cold.reading.first().map(|(_, _, batch)| Rc::clone(batch)))
        };
        while let Some(batch) = first() {
            batch.wait();
            self.settle();
        }
    }

    /// The file is cut to nothing: returns how many pages only the disk had.
    pub(super) fn drop_cold(&self) -> u64 {
        self.wait_for_requests();
        self.cold.take().map_or(0, |cold| cold.left)
    }

    /// A cold page that is about to be written whole: memory gets it without the disk. Whether it
    /// was cold.
    pub(super) fn take_cold(&self, page: u64) -> bool {
        let taken = self.cold.borrow_mut().as_mut().is_some_and(|cold| cold.take(page));
        self.settle();
        taken
    }

    fn disk(&self) -> Option<&Rc<Disk>> {
        self.sb.journal.as_ref().map(|journal| journal.disk())
    }
}

impl World {
    /// Requests from the disk the uncached pages among `count` pages of a file from `first` on, as
    /// far as there is memory.
    fn request_pages(&self, inode: &Inode, (first, count): (u64, u64)) {
        let Some(disk) = inode.disk() else { return };
        let mut run: Option<(u64, u64)> = None;
        for page in first..first + count {
            let added = inode.is_cold(page) && self.add_cold_page(inode, page).is_ok();
            if added {
                run = Some((run.map_or(page, |(first, _)| first), page));
            } else if let Some(run) = run.take() {
                self.request(inode, disk, run);
            }
        }
        if let Some(run) = run {
            self.request(inode, disk, run);
        }
    }

    /// One request for pages that have their frames.
    fn request(&self, inode: &Inode, disk: &Rc<Disk>, (first, last): (u64, u64)) {
        let batch = Batch::new();
        if let Some(cold) = inode.cold.borrow_mut().as_mut() {
            cold.reading.push((first, last, Rc::clone(&batch)));
        }
        disk.submit(self, &batch);
    }

    /// A frame for a page that the disk has.
    fn add_cold_page(&self, inode: &Inode, page: u64) -> Sys<()> {
        let frame = self.zones.cold_page(Use::Programs, &self.costs)?;
        inode.frames.borrow_mut().push(frame);
        let line = inode.page_line(page);
        inode.hot.tree_lock.write_irq(|| line.get());
        line.put();
        self.zones.lru_add(frame, &self.costs);
        inode.pages.borrow_mut().insert(page);
        if let Some(cold) = inode.cold.borrow_mut().as_mut() {
            cold.take(page);
        }
        Ok(())
    }

    /// Before a `read` of `wanted` pages uses `page`: reads ahead if it is time; returns when it is
    /// time again.
    pub(super) fn read_ahead(&self, file: &File, inode: &Inode, page: u64, wanted: u64) -> u64 {
        let mut window = file.ahead.get();
        let next = window.read(page, wanted, |pages| self.request_pages(inode, pages));
        file.ahead.set(window);
        next
    }

    /// Waits until `page`, which may have been requested, is in memory.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn await_page(&self, inode: &Inode, page: u64) -> Sys<()> {
        if inode.is_cold(page) {
            self.request_pages(inode, (page, 1));
        }
        if inode.is_cold(page) {
            return Err(Errno::ENOMEM);
        }
        if let Some(batch) = inode.request_of(page) {
            batch.wait();
            inode.settle();
        }
        Ok(())
    }

    /// A page fault on `page` of a file.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn fault_in(&self, inode: &Inode, page: u64) -> Sys<()> {
        if !inode.may_be_cold() {
            return Ok(());
        }
        if inode.is_cold(page) {
            self.request_pages(inode, (page.saturating_sub(MOST / 2), MOST));
        }
        self.await_page(inode, page)
    }

    /// Writes a file that is on a disk, and forgets its pages.
    fn forget_inode(&self, inode: &Inode) {
        if inode.disk().is_some() && inode.kind == Kind::Regular {
            inode.sync(self);
            self.forget_pages(inode);
        }
    }

    /// Frees the pages of a file that the disk has as well.
    fn forget_pages(&self, inode: &Inode) {
        inode.wait_for_requests();
        let present = inode.pages.take();
        let count = present.count();
        if count == 0 {
            return;
        }
        inode.hot.tree_lock.write_irq(|| inode.hot.pages[0].get());
        inode.hot.pages[0].put();
        {
            let mut kept = inode.cold.borrow_mut();
            let cold = kept.get_or_insert_with(Box::default);
            cold.pages.insert_all(&present);
            cold.left += count;
        }
        let frames = inode.frames.take();
        self.zones.lru_move(&frames, &self.costs);
        self.zones.free(&frames, &self.costs);
    }
}

impl Process {
    /// `posix_fadvise(POSIX_FADV_DONTNEED)` after an `fsync`.
    pub(crate) fn forget_file(&self, path: &str) -> Sys<()> {
        let world = &*self.world;
        let cwd = self.cwd.borrow().clone();
        let dentry = world.walk(&cwd, path)?;
        world.forget_inode(&dentry.inode);
        world.put_path(&dentry);
        Ok(())
    }

    /// `sync`, and 1 into `/proc/sys/vm/drop_caches`: of all files on disks nothing is in memory.
    pub fn drop_caches(&mut self) {
        self.call("write", || {
            let world = &*self.world;
            world.sync_all();
            world.tree.files().iter().for_each(|inode| world.forget_inode(inode));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows that reads of `pages` pages each from the start of a file ask for.
    fn windows(pages: u64, reads: u64) -> Vec<(u64, u64)> {
        let mut window = Window::default();
        let mut asked = Vec::new();
        for read in 0..reads {
            let (mut at, end) = (read * pages, (read + 1) * pages);
            while at < end {
                at = window.read(at, end - at, |pages| asked.push(pages)).max(at + 1);
            }
        }
        asked
    }

    #[test]
    fn windows_of_a_file_read_in_order_double_and_do_not_overlap() {
        assert_eq!(windows(1, 5), [(0, 4), (4, 8), (12, 16)]);
        assert_eq!(windows(1, 90)[3..], [(28, 32), (60, 32), (92, 32)]);
        assert_eq!(windows(512, 1)[..4], [(0, 32), (32, 32), (64, 32), (96, 32)]);
        for (pages, reads) in [(1, 300), (3, 100), (512, 3)] {
            let mut end = 0;
            for (first, count) in windows(pages, reads) {
                assert_eq!(first, end, "reads of {pages} pages");
                end = first + count;
            }
            assert!(end >= pages * reads && end <= pages * reads + 2 * MOST);
        }
    }

    #[test]
    fn a_read_elsewhere_gets_what_it_asks_for() {
        let mut window = Window::default();
        let mut asked = Vec::new();
        for at in [100, 50, 7] {
            window.read(at, 2, |pages| asked.push(pages));
        }
        assert_eq!(asked, [(100, 2), (50, 2), (7, 2)]);
    }
}
