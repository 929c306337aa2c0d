//! Lists of user counts.

use crate::list::{ListError, list};

/// Most users of one load point.
pub const MOST_USERS: u32 = 100_000;
/// Most users of one load point on a real machine; AIM7's limit.
pub const MOST_USERS_HOST: u32 = 10_000;

/// Returns a number of users in words: "1 user", "2 users".
pub fn counted(users: impl Into<u64>) -> String {
    match users.into() {
        1 => "1 user".to_owned(),
        users => format!("{users} users"),
    }
}

/// Parses a list of user counts; the order is kept, repeats are allowed.
///
/// # Errors
/// [`ListError`] for the first entry that is wrong.
pub fn parse(text: &str) -> Result<Vec<u32>, ListError> {
    list("users list", text, &(1..=MOST_USERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_position_and_cure() {
        let error = |text: &str| parse(text).expect_err("must be rejected").to_string();
        for text in ["0", "", "x", "1,0", "1,,2", "5-3", "1-9/0", "-3", "100001", "1.5", "1-"] {
            let text = error(text);
            assert!(text.contains("give numbers from 1 to 10000"), "{text}");
        }
        assert!(error("0").starts_with("users list, entry 1: 0 is too small"));
        assert!(error("").starts_with("users list, entry 1: nothing there"));
        assert!(error("x").contains("\"x\" is not a number"));
        assert!(error("99999999999999999999").contains("is too large"));
        assert!(error("1,2,0").starts_with("users list, entry 3"));
        assert!(error("9-1").contains("goes down"));
    }
}
