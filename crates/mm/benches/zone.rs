//! Pages taken and given back by threads: through the lists alone, and in bursts that need the
//! zone.

use convoy_mm::{
    Bulk, HoldAll, NativeZone, ReleaseContended, ReleaseEach, Setup, Temperature::Hot, Zone,
};
use convoy_sync::{AdaptiveLock, Native};
use divan::counter::ItemsCount;

/// More than a list holds: most of a burst goes through the zone.
const BURST: usize = 512;

fn main() {
    divan::main();
}

fn zone<B: Bulk<Native, AdaptiveLock<Native>> + Default>() -> NativeZone<B> {
    Zone::new(Setup::new(1 << 18, 8, B::default()))
}

#[divan::bench(types = [HoldAll, ReleaseEach, ReleaseContended], threads = [1, 2])]
fn one<B>(bencher: divan::Bencher)
where
    B: Bulk<Native, AdaptiveLock<Native>> + Default + Sync,
{
    let zone = zone::<B>();
    bencher.counter(ItemsCount::new(1_u32)).bench(|| {
        let page = zone.allocate(Hot).expect("the zone is large");
        zone.free(page, Hot);
    });
}

#[divan::bench(types = [HoldAll, ReleaseEach, ReleaseContended], threads = [1, 2])]
fn burst<B>(bencher: divan::Bencher)
where
    B: Bulk<Native, AdaptiveLock<Native>> + Default + Sync,
{
    let zone = zone::<B>();
    bencher.counter(ItemsCount::new(BURST)).with_inputs(|| Vec::with_capacity(BURST)).bench_refs(
        |pages: &mut Vec<u32>| {
            pages.extend((0..BURST).map_while(|_| zone.allocate(Hot)));
            pages.drain(..).for_each(|page| zone.free(page, Hot));
        },
    );
}
