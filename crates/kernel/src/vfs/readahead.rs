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
use crate::block::{Batch, Disk};
use crate::world::World;
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
}

impl World {
    /// Requests from the disk the uncached pages among `count` pages of a file from `first` on, as
    /// far as there is memory.
    fn request_pages(&self, inode: &Inode, first: u64, count: u64) {
        let Some(disk) = inode.disk() else { return };
        let mut run: Option<(u64, u64)> = None;
        for page in first..first + count {
            let added = inode.is_cold(page) && self.add_cold_page(inode, page).is_ok();
            if added {
                run = Some((run.map_or(page, |(first, _)| first), page));
            } else if let Some((first, last)) = run.take() {
                self.request(inode, disk, first, last);
            }
        }
        if let Some((first, last)) = run {
            self.request(inode, disk, first, last);
        }
    }

    /// One request for pages that have their frames.
    fn request(&self, inode: &Inode, disk: &Rc<Disk>, first: u64, last: u64) {
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
        let next = window.read(page, wanted, |(first, count)| {
            self.request_pages(inode, first, count);
        });
        file.ahead.set(window);
        next
    }

    /// Waits until `page`, which may have been requested, is in memory.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn await_page(&self, inode: &Inode, page: u64) -> Sys<()> {
        if inode.is_cold(page) {
            self.request_pages(inode, page, 1);
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
            self.request_pages(inode, page.saturating_sub(MOST / 2), MOST);
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

    /// `sync`, and 1 into `/proc/sys/vm/drop_caches`: of all files on disks nothing is in memory.
    pub(crate) fn drop_caches(&self) {
        self.sync_all();
        self.tree.files().iter().for_each(|inode| self.forget_inode(inode));
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

impl Paths {
    /// `posix_fadvise(POSIX_FADV_DONTNEED)` after an `fsync`.
    pub(crate) fn forget(&self, path: &str) -> Sys<()> {
        let world = &*self.world;
        let dentry = self.walk(path)?;
        world.forget_inode(&dentry.inode);
        world.put_path(&dentry);
        Ok(())
    }
}
