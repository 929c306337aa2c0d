//! Changes of a JSON document that leave it one, so that they reach the code behind the parser.

use crate::tokens::{NUMBERS, TOKENS};
use serde_json::Value;

/// Copies of a name or of an entry that one change makes, at most: enough for lists that are longer
/// than a screen.
const COPIES: usize = 40;
/// Values in a document, and bytes in a name, beyond which nothing is copied: an input of
/// [`LONGEST`](crate::mutate::LONGEST) has no room for many more.
const ROOM: usize = 1 << 13;

/// Returns the document `text` with this number of changes, or nothing if it is not JSON. `below`
/// draws a number below its argument.
pub(crate) fn changed(
    text: &[u8],
    changes: usize,
    below: &mut impl FnMut(usize) -> usize,
) -> Option<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(text).ok()?;
    for _ in 0..changes {
        let mut place = below(count(&document));
        let donor = at(&mut document, &mut place).cloned().unwrap_or_default();
        let mut place = below(count(&document));
        if let Some(value) = at(&mut document, &mut place) {
            change(value, donor, below);
        }
    }
    serde_json::to_vec(&document).ok()
}

/// Number of values in a document.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// The value with that number, in the order of the document; counts `place` down.
fn at<'a>(value: &'a mut Value, place: &mut usize) -> Option<&'a mut Value> {
    if *place == 0 {
        return Some(value);
    }
    *place -= 1;
    match value {
        Value::Array(list) => list.iter_mut().find_map(|one| at(one, place)),
        Value::Object(map) => map.values_mut().find_map(|one| at(one, place)),
        _ => None,
    }
}

/// Changes a value, mostly into another one of its kind: most others would be refused.
fn change(value: &mut Value, donor: Value, below: &mut impl FnMut(usize) -> usize) {
    if below(24) == 0 {
        *value = if below(2) == 0 { Value::Null } else { donor };
        return;
    }
    match value {
        Value::Number(number) => {
            // Those that JSON does not have leave the number as it is.
            let text = NUMBERS[below(NUMBERS.len())];
            *number = serde_json::from_str(text).unwrap_or_else(|_| number.clone());
        }
        Value::String(text) => {
            let place = below(text.len() + 1);
            let place = (0..=place).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            match below(4) {
                0 if text.len() < ROOM => *text = text.repeat(below(COPIES)),
                0 => text.clear(),
                1 => text.truncate(place),
                _ => text.insert_str(place, TOKENS[below(TOKENS.len())]),
            }
        }
        Value::Array(list) if !list.is_empty() => {
            let place = below(list.len());
            match below(4) {
                0 => drop(list.remove(place)),
                1 => list.truncate(place),
                2 => list.swap(0, place),
                _ => {
                    let most = COPIES.min(1 + ROOM / count(&list[place]));
                    drop(list.splice(place..place, vec![list[place].clone(); below(most)]));
                }
            }
        }
        Value::Object(map) if !map.is_empty() && below(4) == 0 => {
            let key = map.keys().nth(below(map.len())).cloned().unwrap_or_default();
            drop(map.remove(&key));
        }
        Value::Object(_) => {}
        _ => *value = donor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_document_is_another_document() {
        let text = br#"{"names": ["one", "two"], "counts": [1, 2.5], "nested": {"deep": true}}"#;
        let (mut state, mut others) = (1_u64, 0);
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % limit
        };
        let before: Value = serde_json::from_slice(text).expect("it is JSON");
        for _ in 0..500 {
            let changed = changed(text, 2, &mut below).expect("it is JSON");
            let after: Value = serde_json::from_slice(&changed).expect("it stays JSON");
            others += u32::from(after != before);
        }
        assert!(others > 250, "{others} of 500 differ");
        assert_eq!(changed(b"no JSON", 1, &mut below), None);
    }
}
