//! Whether a search can be made with its settings.

use super::history::History;
use super::types::{BisectError, Config};

pub(super) fn check(config: &Config, history: &History) -> Result<(), BisectError> {
    let setting = |name, must| Err(BisectError::Setting { name, must });
    if !(config.confidence > 0.5 && config.confidence < 1.0) {
        return setting("confidence", "above 0.5 and below 1");
    }
    if !(config.run_cost > 0.0 && config.run_cost.is_finite()) {
        return setting("run_cost", "positive and finite");
    }
    if !(config.build_cost >= 0.0 && config.build_cost.is_finite()) {
        return setting("build_cost", "finite and not negative");
    }
    if config.min_effect.is_some_and(|least| !(least >= 0.0 && least.is_finite())) {
        return setting("min_effect", "finite and not negative");
    }
    if let Some(prior) = &config.prior {
        if prior.len() != history.nodes() {
            return setting("prior", "one weight for each commit");
        }
        if prior.iter().any(|weight| !(*weight >= 0.0 && weight.is_finite())) {
            return setting("prior", "finite and not negative");
        }
    }
    Ok(())
}
