//! What the tables `limit_rule` and `budget` say.

use agentq_core::budget::{self, Budget, Period};
use agentq_core::limits::Rule;
use agentq_core::rate::Rate;
use serde::Deserialize;

/// A row of `limit_rule`.
#[derive(Deserialize)]
pub struct LimitRow {
    pub limit_key: String,
    pub max_concurrent: Option<u32>,
    pub max_pending: Option<u32>,
    pub taken_by_hand: u32,
    #[serde(default)]
    pub pending_by_hand: u32,
    pub rate: Option<u32>,
    pub per_seconds: Option<f64>,
    pub burst: Option<u32>,
    pub algorithm: Option<String>,
    pub weight: Option<f64>,
    pub max_age_seconds: Option<f64>,
}

impl LimitRow {
    pub fn rule(self) -> (String, Rule) {
        let rate = self.rate.map(|amount| Rate {
            amount,
            per: (self.per_seconds.unwrap_or(1.0) * 1e6) as i64,
            burst: self.burst.unwrap_or(amount),
            is_window: self.algorithm.as_deref() == Some("sliding_window"),
        });
        let LimitRow { limit_key, max_concurrent, max_pending, taken_by_hand, pending_by_hand, .. } = self;
        let (weight, max_age_seconds) = (self.weight, self.max_age_seconds);
        let rule = Rule { max_concurrent, max_pending, max_age_seconds, taken_by_hand, pending_by_hand, rate, weight };
        (limit_key, rule)
    }
}

/// A row of `budget`.
#[derive(Deserialize)]
pub struct BudgetRow {
    pub limit_key: String,
    pub unit: String,
    pub period: String,
    pub amount: f64,
    pub when_exhausted: String,
}

impl BudgetRow {
    pub fn budget(self) -> Option<(String, Budget)> {
        let BudgetRow { limit_key, unit, period, amount, when_exhausted } = self;
        let (period, amount) = (Period::parse(&period)?, budget::millionths(amount));
        Some((limit_key, Budget { unit, period, amount, refuses: when_exhausted == "refuse" }))
    }
}
