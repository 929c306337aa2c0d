//! The memory jobs: allocator, block operations, copies, and the non-local jump.

use core::hint::black_box;
use std::cell::RefCell;

/// Block sizes of the allocator and block jobs, bytes; one half of the table, used twice. The two
/// halves are 41,960.
const BLOCK_SIZES: [usize; 20] =
    [1, 3, 5, 7, 9, 11, 33, 65, 129, 1024, 1025, 1023, 8192, 4096, 4095, 11, 33, 65, 129, 1024];
/// Allocations held at the same time by one allocator round: 100 of each of three kinds.
const ROUND: usize = 100;
/// The constant size of the first kind.
const SMALL_BLOCK: usize = 45;
/// Depth of the recursion that the jump job leaves.
const JUMP_DEPTH: u32 = 10;

/// `rounds` times: 100 × {malloc 45 B, malloc of the table, calloc of the table}, all touched,
/// freed in reverse.
pub(crate) fn allocator_rounds(rounds: u64) -> bool {
    (0..rounds).all(|_| {
        let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(3 * ROUND);
        for index in 0..ROUND {
            let size = BLOCK_SIZES[index % BLOCK_SIZES.len()];
            let mut small = Vec::with_capacity(SMALL_BLOCK);
            small.push(1);
            let mut plain = Vec::with_capacity(size);
            plain.push(1);
            let mut zeroed = vec![0; size];
            zeroed[0] = 1;
            blocks.extend([black_box(small), black_box(plain), black_box(zeroed)]);
        }
        let touched: usize = blocks.iter().map(|block| usize::from(block[0])).sum();
        while let Some(block) = blocks.pop() {
            drop(black_box(block));
        }
        touched == 3 * ROUND
    })
}

/// `count` times memset, memset, memchr, memcmp, memcpy and memmove of one size of the table, at
/// odd addresses.
pub(crate) fn block_operations(count: u64) -> bool {
    let mut first = vec![0_u8; 8192 + 16];
    let mut second = vec![0_u8; 8192 + 16];
    (0..count).all(|n| {
        let size = BLOCK_SIZES[n as usize % BLOCK_SIZES.len()];
        first[1..=size].fill(b'a');
        second[3..3 + size].fill(b'b');
        let found = black_box(&first[1..=size]).contains(&b'z');
        let equal = black_box(&first[1..=size]) == black_box(&second[3..3 + size]);
        second[3..3 + size].copy_from_slice(black_box(&first[1..=size]));
        second.copy_within(3..3 + size, 5);
        !found && !equal && black_box(&second)[4 + size] == b'a'
    })
}

/// Sizes of the copy job, in bytes, with their numbers of consecutive copies: 93 in all, 139,968 B.
const COPY_RUNS: [(&[usize], usize); 15] = [
    (&[1, 2, 3, 4, 5, 6], 1),
    (&[7], 6),
    (&[8, 9, 11, 17, 33, 63], 1),
    (&[7], 6),
    (&[1, 2, 3, 4, 5, 6], 1),
    (&[7], 6),
    (&[127, 256, 1001, 1200, 1492, 1500], 1),
    (&[1024, 2048, 3172, 4096, 8192, 16384, 32768, 65536, 512], 1),
    (&[7], 6),
    (&[1, 2, 3, 4, 5, 6], 1),
    (&[7], 6),
    (&[8, 9, 11, 17, 33, 63], 1),
    (&[7], 6),
    (&[1, 2, 3, 4, 5, 6], 1),
    (&[7], 6),
];

/// The sizes of the copies, in turn.
fn copy_sizes() -> impl Iterator<Item = usize> + Clone {
    COPY_RUNS
        .iter()
        .flat_map(|(sizes, times)| sizes.iter().copied().cycle().take(sizes.len() * times))
}

thread_local! {
    /// Source and target of the copies. The originals have them as static arrays: no run of the job
    /// makes or clears them.
    static COPY_BUFFERS: RefCell<[Vec<u8>; 2]> =
        RefCell::new([7, 0].map(|byte| vec![byte; 65_536 + 8]));
}

/// `passes` of `count` copies each, at alignments 0 to 7.
fn copy(passes: u64, count: usize) -> bool {
    COPY_BUFFERS.with_borrow_mut(|[source, target]| {
        for _ in 0..passes {
            for (index, size) in copy_sizes().cycle().take(count).enumerate() {
                let (from, to) = (index % 8, (index / 8) % 8);
                target[to..to + size].copy_from_slice(&black_box(&*source)[from..from + size]);
                black_box(&mut *target);
            }
        }
        target[65_535] == 7
    })
}

/// `passes` over the copies of re-aim.
pub(crate) fn copies(passes: u64) -> bool {
    copy(passes, 100)
}

/// `passes` over the copies of 1996.
pub(crate) fn copies_of_1996(passes: u64) -> bool {
    copy(passes, 64)
}

/// Returns, from a frame below the jump point, whether the jump is in progress.
#[inline(never)]
fn descend(depth: u32, context: &mut [u64; 8]) -> bool {
    if depth == 0 {
        context[0] = context[0].wrapping_add(1);
        return true;
    }
    black_box(descend(black_box(depth - 1), context))
}

/// `count` non-local exits out of ten frames. Rust does not have `setjmp`: the eight words that it
/// saves are saved and restored, and the frames return one by one, signalled by their return
/// values.
pub(crate) fn jumps(count: u64) -> bool {
    let mut context = [0_u64; 8];
    let mut taken = 0;
    for _ in 0..count {
        let saved = black_box(context);
        if descend(black_box(JUMP_DEPTH), &mut context) {
            taken += 1;
            context[1..].copy_from_slice(&black_box(saved)[1..]);
        }
    }
    taken == count && context[0] == count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_the_sums_of_the_original() {
        assert_eq!(2 * BLOCK_SIZES.iter().sum::<usize>(), 41_960);
        assert_eq!(copy_sizes().count(), 93);
        assert_eq!(copy_sizes().sum::<usize>(), 139_968);
        assert_eq!(copy_sizes().max(), Some(65_536));
    }
}
