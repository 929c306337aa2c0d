//! Zones of several nodes on the virtual machine.

use super::*;
use convoy_machine::{Fifo, Outcome};
use core::cell::OnceCell;
use std::rc::Rc;

/// Pages of one node: two blocks of the largest order.
const SHARE: u32 = 2 << ORDER_MAX;

/// [`with_rules`] of the usual kernel.
fn on_each_cpu(machine: &Preset, pages: u32, body: impl Fn(&Zones, &Costs) + Copy + 'static) {
    with_rules(ZoneRules::default(), machine, pages, body);
}

/// Runs `body` once on each CPU of `machine`, with zones of `pages` pages.
fn with_rules(
    rules: ZoneRules,
    machine: &Preset,
    pages: u32,
    body: impl Fn(&Zones, &Costs) + Copy + 'static,
) {
    let locks = crate::KernelPreset::named("2.6.26-rc1").expect("shipped").locks;
    let costs = Rc::new(Costs::of(machine).expect("every step has a price"));
    let zones: Rc<OnceCell<Zones>> = Rc::default();
    let task = |_| -> Box<dyn FnOnce()> {
        let (zones, costs, machine) = (Rc::clone(&zones), Rc::clone(&costs), machine.clone());
        Box::new(move || {
            body(zones.get_or_init(|| Zones::new(rules, locks, pages, &machine, &costs)), &costs);
            // So that no CPU is done before the last has begun.
            Here::compute(100_000_000);
        })
    };
    let tasks = (0..machine.topology.cpus).map(task).collect();
    let (outcome, machine) = Fifo::run(machine, 1, 1_000_000_000, tasks).expect("address space");
    assert_eq!(outcome, Outcome::Stopped, "a task was forgotten");
    drop(zones);
    drop(machine);
}

fn machine(name: &str) -> Preset {
    Preset::named(name).expect("shipped")
}

#[test]
fn a_cpu_takes_pages_and_stacks_from_its_own_node_and_lists_pages_there() {
    on_each_cpu(&machine("dl980-80-2013"), 8 * SHARE, |zones, costs| {
        let node = Here::cpu() / 10;
        let frames = zones.pages(3, Use::Programs, costs).expect("room");
        let stack = zones.take_stack().expect("room");
        for &frame in frames.iter().chain([&stack]) {
            assert_eq!(zones.part(frame).node, node, "of CPU {}", Here::cpu());
        }
        for _ in 0..PAGEVEC {
            zones.lru_add(frames[0], costs);
        }
        let listed = zones.lru[node].moved();
        assert!(listed > 0 && listed.is_multiple_of(PAGEVEC), "{listed}");
        zones.free(&frames, costs);
        zones.free_stack(stack);
    });
}

#[test]
fn who_finds_its_node_used_up_goes_on_from_near_to_far() {
    let one = machine("dl980-80-2013");
    on_each_cpu(&one, 8 * SHARE, |zones, costs| {
        // CPU 25, of node 2, takes everything; node 3 is its neighbour.
        if Here::cpu() != 25 {
            return;
        }
        let frames = zones.pages(8 * SHARE, Use::Kernel, costs).expect("all of it");
        assert_eq!(zones.page(Use::Kernel, costs), Err(Errno::ENOMEM));
        assert_eq!(zones.take_stack(), Err(Errno::ENOMEM));
        let mut nodes: Vec<usize> = frames.iter().map(|&frame| zones.part(frame).node).collect();
        assert_eq!(zones.free_pages(), 0);
        let last = nodes.split_off(nodes.len() - 8 * WATERMARK as usize);
        assert!(last.contains(&2), "what is left is used up at last");
        nodes.dedup();
        let distance = |&node: &usize| machine("dl980-80-2013").node_distance(2, node);
        assert_eq!(nodes[..2], [2, 3]);
        assert!(nodes.len() == 8 && nodes.is_sorted_by_key(distance), "{nodes:?}");
        zones.lru_move(&frames, costs);
        assert!(zones.lru.iter().all(|lru| lru.moved() == SHARE));
        zones.free(&frames, costs);
        assert_eq!(zones.free_pages(), 8 * SHARE);
        assert_eq!(zones.stats().len(), 1, "zones of one name count together");
    });
}

#[test]
fn nodes_share_what_memory_there_is_in_whole_blocks() {
    let shares = |pages, nodes| -> Vec<(usize, u32, u32)> {
        let spans = spans(ZoneRules::default(), pages, nodes);
        spans.iter().map(|span| (span.node, span.first, span.pages)).collect()
    };
    assert_eq!(shares(SHARE + 5, 1), [(0, 0, SHARE + 5)]);
    assert_eq!(shares(5 << ORDER_MAX, 2), [(0, 0, SHARE), (1, SHARE, 3 << ORDER_MAX)]);
    // Two blocks are not enough for eight nodes.
    assert_eq!(shares(SHARE, 8), [(0, 0, SHARE / 2), (1, SHARE / 2, SHARE / 2)]);
    let high = spans(ZoneRules { highmem: true, ..ZoneRules::default() }, 1 << 20, 1);
    assert!(high.len() == 2 && high[0].name == "HighMem" && high[1].first == DMA_PAGES);
}

/// Pages of a machine of 1 GiB.
const ONE_GIB: u32 = 1 << 18;

#[test]
fn stacks_of_a_slab_cache_stay_with_the_cpu_and_go_back_when_there_are_too_many() {
    for small_stacks in [false, true] {
        let rules = ZoneRules {
            highmem: true,
            stacks: StackSource::Slab,
            small_stacks,
            ..ZoneRules::default()
        };
        with_rules(rules, &machine("smp8-2007"), ONE_GIB, |zones, _| {
            if Here::cpu() != 3 {
                return;
            }
            let blocks = || zones.stats()[1].moved.requested.events;
            let all = zones.free_pages();
            let stack = zones.take_stack().expect("room");
            let first = blocks();
            for _ in 0..100 {
                zones.free_stack(stack);
                assert_eq!(zones.take_stack(), Ok(stack), "the one that was freed last");
            }
            assert_eq!(blocks(), first, "the page allocator sees none of it");
            zones.free_stack(stack);
            // 8 and 37 of two pages, or 24, 96 and 109 of one.
            let pages = zones.rules.stack_pages();
            let most = if pages == 2 { 8 + 37 } else { 24 + 96 + 109 };
            let stacks: Vec<u32> = (0..300).map(|_| zones.take_stack().expect("room")).collect();
            assert_eq!(zones.free_pages(), all - 300 * pages);
            for stack in stacks {
                zones.free_stack(stack);
            }
            let kept = (all - zones.free_pages()) / pages;
            assert!(kept <= most && kept + 12 >= most, "{kept} of {most}");
            // They are the first that are taken again.
            let left = zones.free_pages();
            let again: Vec<u32> = (0..kept).map(|_| zones.take_stack().expect("room")).collect();
            assert_eq!(zones.free_pages(), left);
            assert_eq!(again.iter().collect::<std::collections::BTreeSet<_>>().len(), again.len());
            assert!(!zones.is_locked());
        });
    }
}

#[test]
fn page_tables_lie_in_high_memory_where_the_kernel_was_built_so() {
    for highpte in [false, true] {
        let rules = ZoneRules { highmem: true, highpte, ..ZoneRules::default() };
        with_rules(rules, &machine("smp8-2007"), ONE_GIB, |zones, costs| {
            let name = |whom| {
                let frame = zones.page(whom, costs).expect("room");
                let name = zones.part(frame).name;
                zones.free(&[frame], costs);
                name
            };
            let tables = if zones.rules.highpte { "HighMem" } else { "Normal" };
            assert_eq!(
                [Use::Programs, Use::Tables, Use::Kernel].map(name),
                ["HighMem", tables, "Normal"]
            );
        });
    }
}

#[test]
fn pages_move_in_the_batch_of_each_version_under_locks_that_queue() {
    for (double_batch, batch) in [(false, 31.0), (true, 63.0)] {
        let rules = ZoneRules {
            line_frames: true,
            queued: true,
            long_release: true,
            picked: true,
            double_batch,
            ..ZoneRules::default()
        };
        // Four nodes of 1 GiB.
        with_rules(rules, &machine("skylake-4x24"), 1 << 20, move |zones, costs| {
            let frames = zones.pages(1000, Use::Programs, costs).expect("room");
            zones.lru_remove(&frames, costs);
            zones.free(&frames, costs);
            for moved in zones.stats().iter().map(|stats| stats.moved) {
                for (what, moments) in [("refills", moved.refills), ("drains", moved.drains)] {
                    assert_eq!((moments.mean(), moments.sd()), (batch, 0.0), "{what}");
                    assert!(moments.events > 0, "{what}");
                }
            }
        });
    }
}
