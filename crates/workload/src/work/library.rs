//! The library jobs: strings, sorting, directory entries, name lists, random offsets.

use core::fmt::Write as _;
use core::hint::black_box;

use crate::draw::Lcg;
use crate::fixture;

/// Numbers that one sort pass orders three times.
const SORTED: usize = 10_000;
/// Binary searches after the sorts.
const SEARCHES: usize = 2_000;
/// Bytes of the character sweep and the buffer that is filled by concatenation.
const TEXT_BYTES: usize = 1024;
/// Length of one directory record with a name of the fixture, bytes.
const RECORD_BYTES: usize = 32;
/// Records in the buffer that [`directory_entries`] walks.
const RECORDS: usize = 100;

/// `count` rounds of number formatting and parsing, character classification, concatenation, date
/// formatting, comparison and span search.
pub(crate) fn strings(count: u64) -> bool {
    let sweep: Vec<u8> = (0..TEXT_BYTES).map(|index| (index % 128) as u8).collect();
    let mut text = String::with_capacity(TEXT_BYTES);
    (0..count).all(|n| {
        text.clear();
        let number = n as f64 + 0.25;
        let written = write!(text, "{number} {n} {n:x}").is_ok();
        let mut words = text.split(' ');
        let float = words.next().and_then(|word| word.parse::<f64>().ok());
        let decimal = words.next().and_then(|word| word.parse::<u64>().ok());
        let hex = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        let classes: u32 = black_box(&sweep)
            .iter()
            .map(|byte| {
                u32::from(byte.is_ascii_alphabetic())
                    + u32::from(byte.is_ascii_digit())
                    + u32::from(byte.is_ascii_punctuation())
                    + u32::from(byte.is_ascii_whitespace())
                    + u32::from(byte.to_ascii_uppercase())
            })
            .sum();
        text.clear();
        while text.len() + 16 <= TEXT_BYTES {
            text.push_str(black_box("concatenate this"));
        }
        let date = calendar(n * 86_399);
        let span = text.bytes().take_while(|byte| *byte != b' ').count();
        let order = black_box(text.as_str()).cmp(black_box("concatenate that"));
        written
            && float == Some(number)
            && decimal == Some(n)
            && hex == Some(n)
            && black_box(classes) > 0
            && date.len() == 19
            && span == 11
            && order.is_gt()
    })
}

/// `seconds` since 1970 as a date and a time of day, by the civil calendar.
pub fn calendar(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years counted from 1 March 0000 put the leap day last; 146,097 days are 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}", second % 60)
}

/// Sorts by merging halves, as the C library's `qsort` does: every comparison is a call.
fn merge_sort(numbers: &mut [i32], spare: &mut [i32], before: fn(i32, i32) -> i32) {
    if numbers.len() < 2 {
        return;
    }
    let (low, high) = numbers.split_at_mut(numbers.len() / 2);
    merge_sort(low, spare, before);
    merge_sort(high, spare, before);
    let (mut from_low, mut from_high, mut to) = (0, 0, 0);
    while from_low < low.len() && from_high < high.len() {
        if before(low[from_low], high[from_high]) <= 0 {
            spare[to] = low[from_low];
            from_low += 1;
        } else {
            spare[to] = high[from_high];
            from_high += 1;
        }
        to += 1;
    }
    // What is left of the upper half is in its place.
    let rest = low.len() - from_low;
    spare[to..to + rest].copy_from_slice(&low[from_low..]);
    numbers[..to + rest].copy_from_slice(&spare[..to + rest]);
}

/// `passes` times: 10,000 integers sorted ascending, descending, ascending; then 2,000 binary
/// searches, half of them for missing values.
pub(crate) fn sorts(passes: u64) -> bool {
    let (ascending, descending) =
        black_box(((|a, b| a - b) as fn(i32, i32) -> i32, (|a, b| b - a) as fn(i32, i32) -> i32));
    let mut numbers: Vec<i32> = (0..SORTED as i32).collect();
    let mut spare = vec![0; SORTED];
    (0..passes).all(|_| {
        for order in [ascending, descending, ascending] {
            merge_sort(black_box(&mut numbers), &mut spare, order);
        }
        let wanted = (0..SEARCHES).map(|index| (10 * index) as i32);
        let look = |wanted: &i32| {
            black_box(&numbers).binary_search_by(|number| ascending(*number, *wanted).cmp(&0))
        };
        wanted.filter(|wanted| look(wanted).is_ok()).count() == SEARCHES / 2 && numbers.is_sorted()
    })
}

/// `count` directory entries taken out of the library's buffer, name copied, as `readdir` does.
pub(crate) fn directory_entries(count: u64) -> bool {
    let mut buffer = vec![b'n'; RECORDS * RECORD_BYTES];
    for record in buffer.chunks_mut(RECORD_BYTES) {
        record[16] = RECORD_BYTES as u8;
        record[RECORD_BYTES - 1] = 0;
    }
    let (mut offset, mut entry, mut name_bytes) = (0, [0_u8; 256], 0_u64);
    for _ in 0..count {
        let record = &black_box(&buffer)[offset..offset + RECORD_BYTES];
        let length = record[19..].iter().position(|byte| *byte == 0).unwrap_or(0);
        entry[..length].copy_from_slice(&record[19..19 + length]);
        name_bytes += black_box(&entry)[..length].len() as u64;
        offset = (offset + usize::from(record[16])) % buffer.len();
    }
    name_bytes == count * (RECORD_BYTES as u64 - 20)
}

/// `count` times the list of names parsed and shuffled five times.
pub(crate) fn name_lists(count: u64) -> bool {
    let text = fixture::list_text();
    let mut random = Lcg::new(4);
    (0..count).all(|_| {
        let lines = black_box(&text).lines();
        let mut names: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
        for _ in 0..5 {
            crate::draw::shuffle(&mut random, &mut names);
        }
        black_box(&names).len() == fixture::LIST_NAMES
    })
}

/// `count` random offsets over a whole file, as the random-access jobs draw them.
pub(crate) fn random_offsets(count: u64) -> bool {
    let mut random = Lcg::new(5);
    let sum: u64 = (0..count).map(|_| random.draw_below(black_box(1024))).sum();
    black_box(sum) <= count * 1023
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_knows_leap_days() {
        assert_eq!(calendar(0), "1970-01-01T00:00:00");
        assert_eq!(calendar(951_782_400), "2000-02-29T00:00:00");
        assert_eq!(calendar(1_210_291_199), "2008-05-08T23:59:59");
    }
}
