//! Statistics of the batches of pages that the kernel moves between a zone and the lists of the
//! CPUs.

use convoy_kernel::{Moments, World, ZoneStats};
use serde::{Deserialize, Serialize};

/// A mean and its standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanSd {
    /// The mean.
    pub mean: f64,
    /// The deviation of one value.
    pub sd: f64,
}

impl From<Moments> for MeanSd {
    fn from(moments: Moments) -> Self {
        Self { mean: moments.mean(), sd: moments.sd() }
    }
}

/// One kind of bulk operation on one zone during the busy window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BulkUse {
    /// The zone: `HighMem` or `Normal`.
    pub zone: String,
    /// `rmqueue_bulk` or `free_pages_bulk`.
    pub call: String,
    /// Calls; as in 2.6.16, freeing a single block is a call of `free_pages_bulk`.
    pub calls: u64,
    /// Pages or blocks per call.
    pub count: MeanSd,
    /// Order of the requested or freed blocks. Blocks that are allocated singly count here, but not
    /// as calls: a call of `rmqueue_bulk` always requests order 0.
    pub order: MeanSd,
    /// Order of the free block that each page was split from; `None` for freed blocks.
    pub found_order: Option<MeanSd>,
}

/// Returns the bulk operations since `earlier`, by zone.
pub(crate) fn since(world: &World, earlier: &[ZoneStats]) -> Vec<BulkUse> {
    let rows = |(now, earlier): (ZoneStats, &ZoneStats)| {
        let moved = now.moved.since(earlier.moved);
        let row = |call: &str, count: Moments, order: Moments, found: Option<Moments>| BulkUse {
            zone: now.zone.to_owned(),
            call: call.to_owned(),
            calls: count.events,
            count: count.into(),
            order: order.into(),
            found_order: found.map(MeanSd::from),
        };
        [
            row("rmqueue_bulk", moved.refills, moved.requested, Some(moved.found)),
            row("free_pages_bulk", moved.drains, moved.freed, None),
        ]
    };
    world.page_stats().into_iter().zip(earlier).flat_map(rows).collect()
}
