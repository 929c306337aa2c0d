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

pub(super) mod state;

use super::Kind;
use super::dentry::Inode;
use super::file::File;
use super::paths::Paths;
use crate::base::Base;
use crate::block::{Batch, Disk};
use crate::zone::Use;
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use state::MOST;
use std::rc::Rc;

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

    /// Requests from the disk the uncached pages among `count` pages of a file from `first` on, as
    /// far as there is memory.
    fn request_pages(&self, base: &Base, first: u64, count: u64) {
        let Some(disk) = self.disk() else { return };
        let mut run: Option<(u64, u64)> = None;
        for page in first..first + count {
            let added = self.is_cold(page) && self.add_cold_page(base, page).is_ok();
            if added {
                run = Some((run.map_or(page, |(first, _)| first), page));
            } else if let Some((first, last)) = run.take() {
                self.request(base, disk, first, last);
            }
        }
        if let Some((first, last)) = run {
            self.request(base, disk, first, last);
        }
    }

    /// One request for pages that have their frames.
    fn request(&self, base: &Base, disk: &Rc<Disk>, first: u64, last: u64) {
        let batch = Batch::new();
        if let Some(cold) = self.cold.borrow_mut().as_mut() {
            cold.reading.push((first, last, Rc::clone(&batch)));
        }
        disk.submit(base, &batch);
    }

    /// A frame for a page that the disk has.
    fn add_cold_page(&self, base: &Base, page: u64) -> Sys<()> {
        let frame = base.zones.cold_page(Use::Programs, &base.costs)?;
        self.frames.borrow_mut().push(frame);
        let line = self.page_line(page);
        self.hot.tree_lock.write_irq(|| line.get());
        line.put();
        base.zones.lru_add(frame, &base.costs);
        self.pages.borrow_mut().insert(page);
        if let Some(cold) = self.cold.borrow_mut().as_mut() {
            cold.take(page);
        }
        Ok(())
    }

    /// Before a `read` of `wanted` pages uses `page`: reads ahead if it is time; returns when it is
    /// time again.
    pub(super) fn read_ahead(&self, base: &Base, file: &File, page: u64, wanted: u64) -> u64 {
        let mut window = file.ahead.get();
        let next = window.read(page, wanted, |(first, count)| {
            self.request_pages(base, first, count);
        });
        file.ahead.set(window);
        next
    }

    /// Waits until `page`, which may have been requested, is in memory.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn await_page(&self, base: &Base, page: u64) -> Sys<()> {
        if self.is_cold(page) {
            self.request_pages(base, page, 1);
        }
        if self.is_cold(page) {
            return Err(Errno::ENOMEM);
        }
        if let Some(batch) = self.request_of(page) {
            batch.wait();
            self.settle();
        }
        Ok(())
    }

    /// A page fault on `page` of a file.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn fault_in(&self, base: &Base, page: u64) -> Sys<()> {
        if !self.may_be_cold() {
            return Ok(());
        }
        if self.is_cold(page) {
            self.request_pages(base, page.saturating_sub(MOST / 2), MOST);
        }
        self.await_page(base, page)
    }

    /// Writes a file that is on a disk, and frees its pages.
    pub(super) fn forget(&self, base: &Base) {
        if self.disk().is_some() && self.kind == Kind::Regular {
            self.sync(base);
            self.forget_pages(base);
        }
    }

    /// Frees the pages of a file that the disk has as well.
    fn forget_pages(&self, base: &Base) {
        self.wait_for_requests();
        let present = self.pages.take();
        let count = present.count();
        if count == 0 {
            return;
        }
        self.hot.tree_lock.write_irq(|| self.hot.pages[0].get());
        self.hot.pages[0].put();
        {
            let mut kept = self.cold.borrow_mut();
            let cold = kept.get_or_insert_with(Box::default);
            cold.pages.insert_all(&present);
            cold.left += count;
        }
        let frames = self.frames.take();
        base.zones.lru_move(&frames, &base.costs);
        base.zones.free(&frames, &base.costs);
    }
}

impl Paths {
    /// `posix_fadvise(POSIX_FADV_DONTNEED)` after an `fsync`.
    pub(crate) fn forget(&self, path: &str) -> Sys<()> {
        let world = &*self.world;
        let dentry = self.walk(path)?;
        dentry.inode.forget(world);
        world.put_path(&dentry);
        Ok(())
    }
}
