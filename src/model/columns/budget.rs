//! Columns of `budget check`.

use super::{Column, Kind, column, wide};

pub(super) const BUDGET: [Column; 6] = [
    column("rule", "RULE", Kind::Text, "what is limited"),
    column("allowed", "ALLOWED", Kind::Rate, "the limit"),
    column("counted", "USED", Kind::Rate, "what was counted, at least"),
    column("budget_verdict", "VERDICT", Kind::Text, "within, excepted, exceeded or unknown"),
    column("detail", "DETAIL", Kind::Text, "which resources it was, or what is missing to know"),
    wide("budget", "BUDGET", Kind::Text, "the budget's name"),
];
