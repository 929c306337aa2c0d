//! The page allocator under the checker: the published patch is caught, the others are not.

use convoy_checker::{Budget, ZONE_VARIANTS, check_zone, replay};

const BUDGET: Budget = Budget { executions: 5000, steps: 3000, seed: 1 };

#[test]
fn only_the_published_patch_is_caught_and_its_schedule_replays() {
    for variant in ZONE_VARIANTS {
        let rows = check_zone(variant, BUDGET).unwrap();
        for row in &rows {
            let steps = row.narrative.join("\n");
            let published = *variant == "published-release-each";
            let runs_dry = ["dry", "blocks"].iter().any(|name| row.property.starts_with(name));
            assert_eq!(row.violation, published && runs_dry, "{variant} {}\n{steps}", row.property);
        }
    }
    let rows = check_zone("published-release-each", BUDGET).unwrap();
    let row = rows.iter().find(|row| row.property.starts_with("dry")).unwrap();
    assert!(row.property.ends_with("no-deadlock"), "{}", row.property);
    let schedule = row.schedule.as_deref().unwrap();
    let told = replay(schedule).unwrap();
    assert_eq!(told.violation.as_deref(), Some("no-deadlock"), "{schedule}");
}
