//! Content of files: `read`, `write`, `lseek`, truncation.

use super::dentry::Inode;
use super::file::File;
use super::rules::PageLookup;
use crate::base::Base;
use crate::costs::spend;
use crate::pages::PAGE;
use crate::zone::Use;
use convoy_machine::Here;
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use core::ops::Range;

/// Files up to this length keep their bytes. Longer ones keep their length and their pages only;
/// their bytes read as zeros.
pub(super) const KEPT_BYTES: usize = 16 << 10;
/// Longest file of tmpfs on a 64-bit machine of the period, bytes.
const LONGEST: u64 = 256 << 30;

impl Inode {
    /// Takes a reference to page `page` of the file.
    pub(crate) fn get_page(&self, page: u64) {
        let line = self.page_line(page);
        match self.sb.vfs.page_lookup {
            PageLookup::TreeLock => self.hot.tree_lock.read(|| line.get()),
            PageLookup::Lockless => line.get(),
        }
    }

    /// Looks up a page that exists: a reference and the lock bit of its `struct page`.
    fn find_page(&self, base: &Base, page: u64) {
        self.get_page(page);
        Here::pass(base.costs.file_page);
        self.page_line(page).put();
    }

    /// Adds a page to a file.
    fn add_page(&self, base: &Base, page: u64) -> Sys<()> {
        self.sb.charge(1)?;
        let Ok(frame) = base.zones.page(Use::Programs, &base.costs) else {
            self.sb.uncharge(1);
            return Err(Errno::ENOSPC);
        };
        self.frames.borrow_mut().push(frame);
        Here::pass(base.costs.page_zero);
        let line = self.page_line(page);
        self.hot.tree_lock.write_irq(|| line.get());
        line.put();
        base.zones.lru_add(frame, &base.costs);
        self.pages.borrow_mut().insert(page);
        Ok(())
    }

    /// `read` of a regular file.
    pub(crate) fn read(&self, base: &Base, file: &File, buffer: &mut [u8]) -> Sys<usize> {
        Here::pass(base.costs.read);
        let position = file.hot.position.read();
        let left = self.hot.head.size.read().saturating_sub(position);
        let length = left.min(buffer.len() as u64) as usize;
        if length == 0 {
            return Ok(0);
        }
        let end = position + length as u64;
        let (first, last) = (position / PAGE, (end - 1) / PAGE);
        let mut next_ahead = first;
        for page in first..=last {
            if self.may_be_cold() {
                if page == next_ahead {
                    next_ahead = self.read_ahead(base, file, page, last - page + 1);
                }
                self.await_page(base, page)?;
            }
            let present = self.pages.borrow().contains(page);
            if present {
                self.find_page(base, page);
            }
        }
        spend(base.costs.copy(length));
        file.hot.position.write(end);
        copy_out(self, position, &mut buffer[..length]);
        Ok(length)
    }

    /// `write` to a regular file, under its `i_mutex`.
    pub(crate) fn write(&self, base: &Base, file: &File, buffer: &[u8]) -> Sys<usize> {
        base.under(&self.hot.lock, || {
            Here::pass(base.costs.write);
            let position = file.hot.position.read();
            if buffer.is_empty() {
                return Ok(0);
            }
            let end = position.checked_add(buffer.len() as u64).ok_or(Errno::EFBIG)?;
            if end > LONGEST {
                return Err(Errno::EFBIG);
            }
            self.stamp(base);
            let written = self.write_pages(base, position, end)?;
            spend(base.costs.copy(written));
            let now = position + written as u64;
            copy_in(self, position, &buffer[..written]);
            let size = &self.hot.head.size;
            if now > size.peek() {
                size.write(now);
            }
            file.hot.position.write(now);
            Ok(written)
        })
    }

    /// Gets the pages from `position` to `end`; returns how many bytes of them there is room for,
    /// `ENOSPC` for none.
    fn write_pages(&self, base: &Base, position: u64, end: u64) -> Sys<usize> {
        let grows = end > self.hot.head.size.peek();
        for page in position / PAGE..=(end - 1) / PAGE {
            let present = self.pages.borrow().contains(page);
            let present = present || self.warm_up(base, page, position..end)?;
            let written = self.write_page(base, page, !present, grows, || {
                if present {
                    self.find_page(base, page);
                    return Ok(());
                }
                self.add_page(base, page)
            });
            if let Err(errno) = written {
                let reached = (page * PAGE).max(position);
                return if reached > position {
                    Ok((reached - position) as usize)
                } else {
                    Err(errno)
                };
            }
        }
        Ok((end - position) as usize)
    }

    /// Before a write to the bytes `written` changes a page: if only the disk has
    /// it, it is read, unless it is written whole. Whether memory has it then and did not before.
    fn warm_up(&self, base: &Base, page: u64, written: Range<u64>) -> Sys<bool> {
        if !self.is_cold(page) {
            return Ok(false);
        }
        if written.start <= page * PAGE && written.end >= (page + 1) * PAGE {
            // It has its block, which is counted.
            self.sb.uncharge(1);
            self.take_cold(page);
            self.add_page(base, page)?;
        } else {
            self.await_page(base, page)?;
        }
        Ok(true)
    }

    /// Cuts a file to length 0; the caller holds its `i_mutex`.
    pub(super) fn truncate(&self, base: &Base) {
        let shrinks = self.hot.head.size.peek() > 0;
        self.hot.head.size.write(0);
        self.truncate_blocks(base, shrinks, || self.free_pages(base));
        self.content.replace(Some(Vec::new()));
    }

    /// Frees the pages of a file.
    pub(super) fn free_pages(&self, base: &Base) {
        let cold = self.drop_cold();
        if cold > 0 {
            self.sb.uncharge(cold);
        }
        let nodes = self.pages.borrow().tree_nodes();
        let pages = self.pages.borrow_mut().remove_from(0);
        if pages == 0 {
            return;
        }
        self.hot.tree_lock.write_irq(|| self.hot.pages[0].get());
        base.free_later(nodes);
        self.hot.pages[0].put();
        let frames = self.frames.take();
        base.zones.lru_move(&frames, &base.costs);
        base.zones.free(&frames, &base.costs);
        self.sb.uncharge(u64::from(pages));
    }
}

/// Copies the stored part of the content from `position` on; the rest reads as zeros.
fn copy_out(inode: &Inode, position: u64, buffer: &mut [u8]) {
    let content = inode.content.borrow();
    let kept = content.as_deref().unwrap_or_default();
    let start = (position as usize).min(kept.len());
    let length = buffer.len().min(kept.len() - start);
    buffer[..length].copy_from_slice(&kept[start..start + length]);
    buffer[length..].fill(0);
}

/// Keeps `bytes` at `position`, or stops to keep the content when it becomes too long.
fn copy_in(inode: &Inode, position: u64, bytes: &[u8]) {
    let mut content = inode.content.borrow_mut();
    let Some(kept) = content.as_mut() else { return };
    let end = position as usize + bytes.len();
    if end > KEPT_BYTES {
        *content = None;
        return;
    }
    if kept.len() < end {
        kept.resize(end, 0);
    }
    kept[position as usize..end].copy_from_slice(bytes);
}
