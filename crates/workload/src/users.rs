//! Lists of user counts: `1,2,10`, ranges `10-100/10`, or both.

/// Most users of one load point.
pub const MOST_USERS: u32 = 100_000;
/// Most users of one load point on a real machine; AIM7's limit.
pub const MOST_USERS_HOST: u32 = 10_000;

/// Most load points of one list: ranges add up, and each point takes at least milliseconds.
const MOST_POINTS: usize = 100_000;

/// Returns a number of users in words: "1 user", "2 users".
pub fn counted(users: impl Into<u64>) -> String {
    match users.into() {
        1 => "1 user".to_owned(),
        users => format!("{users} users"),
    }
}

/// A list that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("users list, entry {position}: {problem}; {cure}")]
pub struct UsersError {
    /// Entry, from 1.
    pub position: usize,
    /// The problem.
    pub problem: String,
    /// What to do.
    pub cure: String,
}

/// Parses a list of user counts; the order is kept, repeats are allowed.
///
/// # Errors
/// [`UsersError`] for the first entry that is wrong.
pub fn parse(text: &str) -> Result<Vec<u32>, UsersError> {
    let mut users = Vec::new();
    for (index, entry) in text.split(',').enumerate() {
        let located = |problem: String| UsersError {
            position: index + 1,
            problem,
            cure: format!(
                "give numbers from 1 to {MOST_USERS} such as 1,2,10 or a range such as 10-100/10"
            ),
        };
        let some = parse_entry(entry.trim()).map_err(located)?;
        if users.len() + some.len() > MOST_POINTS {
            return Err(located(format!("these are more than {MOST_POINTS} load points")));
        }
        users.extend(some);
    }
    Ok(users)
}

fn parse_entry(entry: &str) -> Result<Vec<u32>, String> {
    if entry.is_empty() {
        return Err("nothing there".into());
    }
    let Some((first, rest)) = entry.split_once('-') else {
        return Ok(vec![parse_number(entry)?]);
    };
    let (last, step) = rest.split_once('/').unwrap_or((rest, "1"));
    let (first, last, step) = (parse_number(first)?, parse_number(last)?, parse_number(step)?);
    if last < first {
        return Err(format!("the range \"{entry}\" goes down"));
    }
    Ok((first..=last).step_by(step as usize).collect())
}

fn parse_number(text: &str) -> Result<u32, String> {
    match text.trim().parse::<u32>() {
        Ok(0) => Err("0 users do no work".into()),
        Ok(number) if number <= MOST_USERS => Ok(number),
        Ok(number) => Err(format!("{number} is too many")),
        Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => {
            Err(format!("{} is too many", text.trim()))
        }
        Err(_) => Err(format!("\"{text}\" is not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_add_up_without_bound() {
        let most = format!("1-{MOST_USERS}");
        assert_eq!(parse(&most).map(|users| users.len()), Ok(MOST_POINTS));
        let error = parse(&format!("{most},1")).expect_err("one too many").to_string();
        assert!(error.contains("entry 2") && error.contains("load points"), "{error}");
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(parse("1,2,10,50,200"), Ok(vec![1, 2, 10, 50, 200]));
        assert_eq!(parse("10-40/10"), Ok(vec![10, 20, 30, 40]));
        assert_eq!(parse("10-25/10, 3-4"), Ok(vec![10, 20, 3, 4]));
        assert_eq!(parse("7-7"), Ok(vec![7]));
    }

    #[test]
    fn errors_name_position_and_cure() {
        let error = |text: &str| parse(text).expect_err("must be rejected").to_string();
        for text in ["0", "", "x", "1,0", "1,,2", "5-3", "1-9/0", "-3", "100001", "1.5", "1-"] {
            let text = error(text);
            assert!(text.contains("give numbers from 1 to 10000"), "{text}");
        }
        assert!(error("0").starts_with("users list, entry 1: 0 users do no work"));
        assert!(error("").starts_with("users list, entry 1: nothing there"));
        assert!(error("x").contains("\"x\" is not a number"));
        assert!(error("99999999999999999999").contains("is too many"));
        assert!(error("1,2,0").starts_with("users list, entry 3"));
        assert!(error("9-1").contains("goes down"));
    }
}
