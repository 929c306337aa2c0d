//! Places in Python code, which the recorder has named.

use std::collections::BTreeMap;
use std::path::Path;

use crate::layout::{PYTHON, Place};

/// Returns the names of the places, by call site.
pub(crate) fn places(places: &[Place]) -> BTreeMap<u64, String> {
    let mut names = BTreeMap::new();
    for (number, place) in (0..).zip(places).filter(|(_, place)| place.bytes > 0) {
        let text: Vec<u8> = place.text.iter().flat_map(|word| word.to_le_bytes()).collect();
        let length = (place.bytes as usize).min(text.len());
        names.insert(PYTHON | number, String::from_utf8_lossy(&text[..length]).into_owned());
    }
    names
}

/// Returns whether a place, as an account prints it, is in Python code.
pub fn is_python(place: &str) -> bool {
    let file = place.strip_suffix(')').and_then(|place| place.rsplit_once(" ("));
    let line = file.and_then(|(_, file)| file.rsplit_once(':'));
    line.is_some_and(|(file, line)| {
        let is_number = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        let is_script = Path::new(file).extension().is_some_and(|extension| extension == "py");
        is_number && (is_script || file.starts_with('<') && file.ends_with('>'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{PLACE_BYTES, Part as _};

    #[test]
    fn places_of_python_have_a_file_and_a_line() {
        let mut table = <[Place; 3]>::zeroed();
        let text = b"Store.put (store.py:12)";
        let mut bytes = text.to_vec();
        bytes.resize(24, 0);
        table[1].bytes = text.len() as u64;
        for (word, bytes) in table[1].text.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        // A length that cannot be right.
        table[2].bytes = u64::MAX;
        let found = places(&*table);
        assert_eq!(found[&(PYTHON | 1)], "Store.put (store.py:12)");
        assert!(is_python(&found[&(PYTHON | 1)]));
        assert_eq!(found[&(PYTHON | 2)].len(), PLACE_BYTES);
        assert!(!found.contains_key(&PYTHON));
        for place in ["acquire_timed (_threadmodule.c:98)", "put (store.py:)x", "python3.11+0x12"] {
            assert!(!is_python(place), "{place}");
        }
    }
}
