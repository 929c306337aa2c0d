//! Lists of whole numbers: `1,2,10`, ranges `10-100/10`, or both. Every list of the command line is
//! written like this.

use std::num::IntErrorKind;
use std::ops::RangeInclusive;

/// Maximum length of a list: ranges add up, and each entry is work.
const MOST: usize = 100_000;

/// A list that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what}, entry {position}: {problem}; give numbers from {least} to {most} such as 1,2,10 or a \
     range such as 10-100/10"
)]
pub struct ListError {
    /// What the list has.
    pub what: &'static str,
    /// Entry, from 1.
    pub position: usize,
    /// The problem.
    pub problem: String,
    /// Smallest number.
    pub least: u32,
    /// Largest number.
    pub most: u32,
}

/// Parses a list of numbers in `range`; the order is kept, repeats are allowed.
///
/// # Errors
/// [`ListError`] for the first entry that is wrong.
pub fn list(
    what: &'static str,
    text: &str,
    range: &RangeInclusive<u32>,
) -> Result<Vec<u32>, ListError> {
    let mut numbers = Vec::new();
    for (index, entry) in text.split(',').enumerate() {
        let located = |problem: String| ListError {
            what,
            position: index + 1,
            problem,
            least: *range.start(),
            most: *range.end(),
        };
        let [first, last, step] = entry_of(entry.trim(), range).map_err(located)?;
        if numbers.len() + ((last - first) / step) as usize >= MOST {
            return Err(located(format!("these are more than {MOST} numbers")));
        }
        numbers.extend((first..=last).step_by(step as usize));
    }
    Ok(numbers)
}

/// First, last and step of a range.
fn entry_of(entry: &str, range: &RangeInclusive<u32>) -> Result<[u32; 3], String> {
    if entry.is_empty() {
        return Err("nothing there".into());
    }
    let Some((first, rest)) = entry.split_once('-') else {
        let number = number(entry, range)?;
        return Ok([number, number, 1]);
    };
    let (last, step) = rest.split_once('/').unwrap_or((rest, "1"));
    let step = number(step, &(1..=u32::MAX))?;
    let (first, last) = (number(first, range)?, number(last, range)?);
    if last < first {
        return Err(format!("the range \"{entry}\" goes down"));
    }
    Ok([first, last, step])
}

fn number(text: &str, range: &RangeInclusive<u32>) -> Result<u32, String> {
    let text = text.trim();
    match text.parse::<u32>() {
        Ok(number) if number < *range.start() => Err(format!("{number} is too small")),
        Ok(number) if number > *range.end() => Err(format!("{number} is too large")),
        Ok(number) => Ok(number),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
            Err(format!("{text} is too large"))
        }
        Err(_) => Err(format!("\"{text}\" is not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> Result<Vec<u32>, ListError> {
        list("CPUs", text, &(1..=u32::MAX))
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(cpus("1,2,10,50,200"), Ok(vec![1, 2, 10, 50, 200]));
        assert_eq!(cpus("2-5"), Ok(vec![2, 3, 4, 5]));
        assert_eq!(cpus("10-25/10, 3-4"), Ok(vec![10, 20, 3, 4]));
        assert_eq!(cpus("7-7"), Ok(vec![7]));
    }

    #[test]
    fn ranges_do_not_add_up_without_bound() {
        assert_eq!(cpus("1-100000").map(|cpus| cpus.len()), Ok(MOST));
        for text in ["1-100000,1", "7,1-4294967295"] {
            let error = cpus(text).expect_err("too many").to_string();
            assert!(error.starts_with("CPUs, entry 2: these are more than 100000"), "{error}");
        }
    }
}
