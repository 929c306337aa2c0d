//! Parts of the sentences of predictions.

/// Returns a place as in `in simulate_tick (hog.cc:7)`.
pub(super) fn in_place(place: &str) -> String {
    if place.is_empty() { "without a name".to_owned() } else { format!("in {place}") }
}
