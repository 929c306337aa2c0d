//! Multiple tests: p-values adjusted for a whole table.

use crate::error::Error;

/// How the p-values of one table are adjusted for their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Correction {
    /// Not at all: of 20 comparisons without any difference, one is expected to look like one.
    None,
    /// Holm (1979): the chance of any false claim in the table stays below the level, whatever the
    /// dependence between its rows.
    Holm,
    /// Benjamini and Hochberg (1995): the expected share of false claims among all claims stays
    /// below the level, if the rows are independent or positively dependent.
    #[default]
    BenjaminiHochberg,
}

/// Adjusted p-values in the order given; each can be compared with the level directly.
///
/// # Errors
/// [`Error::NotAProbability`] unless every p lies in 0 to 1, both included.
pub fn adjust(p: &[f64], correction: Correction) -> Result<Vec<f64>, Error> {
    if let Some(value) = p.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        return Err(Error::NotAProbability { name: "p", value: *value });
    }
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = p.to_vec();
    let count = p.len() as f64;
    match correction {
        Correction::None => {}
        Correction::Holm => {
            let mut largest: f64 = 0.0;
            for (rank, index) in order.iter().enumerate() {
                largest = largest.max((count - rank as f64) * p[*index]).min(1.0);
                adjusted[*index] = largest;
            }
        }
        Correction::BenjaminiHochberg => {
            let mut smallest: f64 = 1.0;
            for (rank, index) in order.iter().enumerate().rev() {
                smallest = smallest.min(count / (rank + 1) as f64 * p[*index]);
                adjusted[*index] = smallest;
            }
        }
    }
    Ok(adjusted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_computed_adjustments() {
        let p = [0.01, 0.04, 0.03, 0.005];
        let close = |found: Vec<f64>, expected: [f64; 4]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{found:?}");
        };
        close(adjust(&p, Correction::Holm).unwrap(), [0.03, 0.06, 0.06, 0.02]);
        close(adjust(&p, Correction::BenjaminiHochberg).unwrap(), [0.02, 0.04, 0.04, 0.02]);
        close(adjust(&p, Correction::None).unwrap(), p);
    }

    #[test]
    fn hostile_tables() {
        for correction in [Correction::None, Correction::Holm, Correction::BenjaminiHochberg] {
            assert_eq!(adjust(&[], correction), Ok(vec![]));
            assert_eq!(adjust(&[1.0, 1.0], correction), Ok(vec![1.0, 1.0]));
            assert_eq!(adjust(&[0.0], correction), Ok(vec![0.0]));
            for bad in [f64::NAN, -0.1, 1.1] {
                assert!(adjust(&[0.5, bad], correction).is_err());
            }
        }
    }
}
