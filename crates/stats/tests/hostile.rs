//! Hostile samples through everything: an error or numbers, never a panic and never a NaN.

use convoy_stats::{
    Alternative, AlwaysValid, Better, Comparison, Correction, Design, Error, Interval, Question,
    Rng, Sample, Welch, Zeros, adjust_table, diagnose, noise_floor, noise_floor_within,
    paired_ratio, precision, probability_larger, rank_sum, shift_of, signed_rank_of,
    unpaired_ratio, unpaired_shift,
};

/// Values that break careless arithmetic.
const NASTY: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e150,
    -1e150,
    5e-324,
    -5e-324,
    1e-200,
    1e-160,
    1e15,
    0.1,
    3.0,
    3.0,
    2e-308,
    1.000_000_000_000_000_2,
];

fn nasty(rng: &mut Rng) -> Sample {
    let n = 1 + rng.below(14);
    // Few different values in many cases, so that whole samples are equal or tie.
    let kinds = 1 + rng.below(NASTY.len());
    let start = rng.below(NASTY.len());
    Sample::new((0..n).map(|_| NASTY[(start + rng.below(kinds)) % NASTY.len()]).collect::<Vec<_>>())
        .unwrap()
}

/// The text of a result shows every number in it.
fn no_nan<T: std::fmt::Debug>(what: &str, result: &T, samples: (&Sample, &Sample)) {
    let text = format!("{result:?}");
    assert!(!text.contains("NaN"), "{what} of {samples:?}: {text}");
}

#[test]
fn nothing_panics_and_nothing_is_nan() {
    let mut rng = Rng::new(5);
    for _ in 0..3_000 {
        let (a, b) = (nasty(&mut rng), nasty(&mut rng));
        let pair = (&a, &b);
        for interval in [Interval::T, Interval::Z] {
            no_nan("estimate", &a.estimate_with(0.99, interval), pair);
            no_nan("unpaired ratio", &unpaired_ratio(&a, &b, 0.95, interval), pair);
        }
        no_nan("median", &(a.median(), a.percentile(99.0), a.mean(), a.sd()), pair);
        no_nan("ratio", &paired_ratio(&a, &b), pair);
        no_nan("welch", &Welch::new(&a, &b).map(|w| (w, w.p(Alternative::TwoSided))), pair);
        no_nan("shift", &(shift_of(&a, 0.8), unpaired_shift(&a, &b, 0.8)), pair);
        no_nan("larger", &probability_larger(&a, &b), pair);
        for alternative in [Alternative::TwoSided, Alternative::Less, Alternative::Greater] {
            let tests =
                (rank_sum(&a, &b, alternative), signed_rank_of(&a, Zeros::Pratt, alternative));
            no_nan("rank tests", &tests, pair);
            assert!((0.0..=1.0).contains(&tests.0.p) && (0.0..=1.0).contains(&tests.1.p));
        }
        for (design, better) in
            [(Design::Paired, Better::Lower), (Design::Unpaired, Better::Higher)]
        {
            let question = Question { design, better, ..Question::default() };
            let found = Comparison::new(&a, &b, question);
            assert_eq!(found.is_err(), design == Design::Paired && a.n() != b.n());
            no_nan("comparison", &found.as_ref().map(|f| (f.clone(), f.speedup())), pair);
            if let Ok(found) = found {
                adjust_table(&mut [found.clone(), found], Correction::Holm).unwrap();
            }
        }
        no_nan("sequence", &Comparison::watched(&a, &b, Question::default()), pair);
        no_nan("sequence", &AlwaysValid::default().interval(&a), pair);
        no_nan("precision", &precision(&a, 0.01, 0.95), pair);
        no_nan("floor", &(noise_floor(&a, &b), noise_floor_within(&a)), pair);
        no_nan("diagnosis", &diagnose(&a, 2), pair);
    }
}

#[test]
fn what_is_no_sample_is_refused_with_its_place() {
    assert_eq!(Sample::new([]), Err(Error::Empty));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(Sample::new([1.0, 2.0, bad, bad]), Err(Error::NotFinite { index: 2 }));
    }
    assert_eq!(Sample::new([1.0, -2e150]), Err(Error::TooLarge { index: 1 }));
}
