//! States by their numbers, which are hashes already.

/// Number of places of a new table.
const FIRST: usize = 1 << 10;

/// A value for each number, with open addressing.
pub(super) struct Table<V> {
    /// Numbers with their values. The number 0 is a free place.
    places: Vec<(u128, V)>,
    count: usize,
}

impl<V: Copy + Default> Table<V> {
    pub(super) fn new() -> Self {
        Self { places: Vec::new(), count: 0 }
    }

    /// Returns the place of `key`, or the free one where it belongs.
    fn place(places: &[(u128, V)], key: u128) -> usize {
        let last = places.len() - 1;
        let mut index = key as usize & last;
        while places[index].0 != 0 && places[index].0 != key {
            index = (index + 1) & last;
        }
        index
    }

    pub(super) fn get(&mut self, key: u128) -> Option<&mut V> {
        if self.places.is_empty() {
            return None;
        }
        let place = Self::place(&self.places, key.max(1));
        let (number, value) = &mut self.places[place];
        (*number != 0).then_some(value)
    }

    /// Adds a number that is not there.
    pub(super) fn insert(&mut self, key: u128, value: V) {
        if self.count * 4 >= self.places.len() * 3 {
            let length = (2 * self.places.len()).max(FIRST);
            let places = std::mem::replace(&mut self.places, vec![(0, V::default()); length]);
            for (key, value) in places.into_iter().filter(|&(key, _)| key != 0) {
                let place = Self::place(&self.places, key);
                self.places[place] = (key, value);
            }
        }
        let place = Self::place(&self.places, key.max(1));
        self.places[place] = (key.max(1), value);
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_value() {
        let mut table = Table::new();
        let keys = || (0..5000_u128).map(|number| number * 0x400);
        assert_eq!(table.get(0), None);
        keys().for_each(|key| table.insert(key, key + 7));
        assert!(keys().all(|key| table.get(key) == Some(&mut (key + 7))));
        assert_eq!(table.get(1 << 64), None);
    }
}
