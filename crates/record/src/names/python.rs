//! Places in Python code, which the recorder has named.

use std::collections::BTreeMap;
use std::path::Path;

use crate::layout::{P_BYTES, P_TEXT, P_TEXT_BYTES, PLACE_WORDS, PYTHON};

/// Returns the names of the places in these words, by call site.
pub(crate) fn places(words: &[u64]) -> BTreeMap<u64, String> {
    let all = (0..).zip(words.chunks_exact(PLACE_WORDS));
    all.filter_map(|(number, words)| {
        let length = (words[P_BYTES] as usize).min(P_TEXT_BYTES);
        let text: Vec<u8> = words[P_TEXT..].iter().flat_map(|word| word.to_le_bytes()).collect();
        let name = String::from_utf8_lossy(&text[..length]).into_owned();
        (length > 0).then_some((PYTHON | number, name))
    })
    .collect()
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

    #[test]
    fn places_of_python_have_a_file_and_a_line() {
        let mut words = vec![0; 3 * PLACE_WORDS];
        let text = b"Store.put (store.py:12)";
        let mut bytes = text.to_vec();
        bytes.resize(24, 0);
        words[PLACE_WORDS + P_BYTES] = text.len() as u64;
        for (at, word) in bytes.chunks_exact(8).enumerate() {
            let word = word.try_into().expect("eight bytes");
            words[PLACE_WORDS + P_TEXT + at] = u64::from_le_bytes(word);
        }
        // A length that cannot be right.
        words[2 * PLACE_WORDS + P_BYTES] = u64::MAX;
        let found = places(&words);
        assert_eq!(found[&(PYTHON | 1)], "Store.put (store.py:12)");
        assert!(is_python(&found[&(PYTHON | 1)]));
        assert_eq!(found[&(PYTHON | 2)].len(), P_TEXT_BYTES);
        assert!(!found.contains_key(&PYTHON));
        for place in ["acquire_timed (_threadmodule.c:98)", "put (store.py:)x", "python3.11+0x12"] {
            assert!(!is_python(place), "{place}");
        }
    }
}
