//! Known answers of scipy and statsmodels, from `data/known.csv`; `data/known.py` writes it.

use std::collections::BTreeMap;

use convoy_stats::{
    Alternative, Correction, Design, Goal, Interval, Method, Sample, Welch, Zeros, adjust,
    normal_cdf, normal_quantile, rank_sum, signed_rank, t_cdf, t_quantile,
};

const TABLE: &str = include_str!("data/known.csv");

/// A row without its first column, which names the computed quantity.
struct Row<'a>(Vec<&'a str>);

impl Row<'_> {
    fn list(&self, column: usize) -> Vec<f64> {
        self.0[column].split(' ').map(|cell| cell.parse().unwrap()).collect()
    }

    fn number(&self, column: usize) -> f64 {
        self.0[column].parse().unwrap()
    }

    /// The result; NaN, which agrees with nothing, where it is a list.
    fn last(&self) -> f64 {
        self.0[self.0.len() - 1].parse().unwrap_or(f64::NAN)
    }

    fn sample(&self, column: usize) -> Sample {
        Sample::new(self.list(column)).unwrap()
    }

    fn alternative(&self, column: usize) -> Alternative {
        match self.0[column] {
            "two-sided" => Alternative::TwoSided,
            "less" => Alternative::Less,
            "greater" => Alternative::Greater,
            other => panic!("unknown alternative {other}"),
        }
    }
}

#[track_caller]
fn close(what: &str, found: f64, expected: f64, relative: f64) {
    let error = (found - expected).abs();
    assert!(error <= relative * expected.abs(), "{what}: {found} is not {expected}");
}

fn check(what: &str, row: &Row<'_>) {
    let last = row.last();
    match what {
        "normal_cdf" => close(what, normal_cdf(row.number(0)).unwrap(), last, 1e-12),
        "normal_quantile" if last.abs() < 1e-30 => {
            assert!(normal_quantile(row.number(0)).unwrap().abs() < 1e-15);
        }
        "normal_quantile" => close(what, normal_quantile(row.number(0)).unwrap(), last, 1e-12),
        "t_cdf" => close(what, t_cdf(row.number(0), row.number(1)).unwrap(), last, 1e-12),
        "t_quantile" => {
            close(what, t_quantile(row.number(0), row.number(1)).unwrap(), last, 1e-12);
        }
        "welch" => {
            let welch = Welch::new(&row.sample(0), &row.sample(1)).unwrap();
            close("t", welch.t, row.number(3), 1e-11);
            close("df", welch.df, row.number(4), 1e-12);
            close(what, welch.p(row.alternative(2)), last, 1e-12);
        }
        "welch_interval" => {
            let welch = Welch::new(&row.sample(0), &row.sample(1)).unwrap();
            let half = welch.half_width(0.95, Interval::T).unwrap();
            close(what, welch.difference - half, row.number(2), 1e-11);
            close(what, welch.difference + half, last, 1e-11);
        }
        _ => check_tables(what, row),
    }
}

fn check_tables(what: &str, row: &Row<'_>) {
    let last = row.last();
    match what {
        "rank_sum" => {
            let found = rank_sum(&row.sample(0), &row.sample(1), row.alternative(2));
            assert_eq!(found.method, Method::Exact);
            close("U", found.statistic, row.number(3), 0.0);
            close(what, found.p, last, 1e-12);
        }
        "signed_rank" => {
            let (x, y) = (row.sample(0), row.sample(1));
            let found = signed_rank(&x, &y, Zeros::Wilcoxon, row.alternative(2)).unwrap();
            assert_eq!(found.method, Method::Exact);
            close("W+", found.statistic, row.number(3), 0.0);
            close(what, found.p, last, 1e-12);
        }
        "signed_rank_normal" | "signed_rank_normal_pratt" => {
            let zeros = if what.ends_with("pratt") { Zeros::Pratt } else { Zeros::Wilcoxon };
            let found =
                signed_rank(&row.sample(0), &row.sample(1), zeros, Alternative::TwoSided).unwrap();
            assert!(found.method == Method::Normal && found.zeros > 0);
            close(what, found.p, last, 1e-12);
        }
        "rank_sum_normal" => {
            let found = rank_sum(&row.sample(0), &row.sample(1), Alternative::TwoSided);
            assert_eq!(found.method, Method::Normal);
            close(what, found.p, last, 1e-12);
        }
        "holm" | "benjamini_hochberg" => {
            let correction =
                if what == "holm" { Correction::Holm } else { Correction::BenjaminiHochberg };
            let found = adjust(&row.list(0), correction).unwrap();
            for (found, expected) in found.iter().zip(row.list(1)) {
                close(what, *found, expected, 1e-12);
            }
        }
        "power_paired" | "power_unpaired" => {
            let design = if what == "power_paired" { Design::Paired } else { Design::Unpaired };
            let goal = Goal { design, effect: row.number(0), alpha: 0.05, power: 0.8 };
            // The integral is one of a few digits; runs are whole numbers.
            close(what, goal.power_of(row.number(1) as usize).unwrap(), last, 1e-6);
        }
        other => panic!("unknown row {other}"),
    }
}

#[test]
fn every_row_of_the_table_agrees() {
    let mut seen = BTreeMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split(',');
        let what = columns.next().unwrap();
        check(what, &Row(columns.collect()));
        *seen.entry(what).or_insert(0) += 1;
    }
    // The list of what must be there: a table cut short would agree with everything.
    let least = [
        ("normal_cdf", 16),
        ("normal_quantile", 13),
        ("t_cdf", 192),
        ("t_quantile", 120),
        ("welch", 54),
        ("welch_interval", 18),
        ("rank_sum", 90),
        ("signed_rank", 90),
        ("signed_rank_normal", 2),
        ("signed_rank_normal_pratt", 2),
        ("rank_sum_normal", 2),
        ("holm", 3),
        ("benjamini_hochberg", 3),
        ("power_paired", 20),
        ("power_unpaired", 20),
    ];
    for (what, count) in least {
        assert!(seen.get(what).is_some_and(|seen| *seen >= count), "{what}: {seen:?}");
    }
}
