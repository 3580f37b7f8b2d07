//! Columns of `budget check` and `upgrade`.

use super::{Column, Kind, column, wide};

pub(super) const BUDGET: [Column; 6] = [
    column("rule", "RULE", Kind::Text, "what is limited"),
    column("allowed", "ALLOWED", Kind::Rate, "the limit"),
    column("counted", "USED", Kind::Rate, "what was counted, at least"),
    column("budget_verdict", "VERDICT", Kind::Text, "within, excepted, exceeded or unknown"),
    column("detail", "DETAIL", Kind::Text, "which resources it was, or what is missing to know"),
    wide("budget", "BUDGET", Kind::Text, "the budget's name"),
];

pub(super) const UPGRADE: [Column; 10] = [
    column("upgrade_verdict", "VERDICT", Kind::Text, "breaks, upgraded-along, later or deprecated"),
    column("api_version", "API", Kind::Text, "the deprecated group and version that was called"),
    column("removed_release", "REMOVED IN", Kind::Text, "the first Kubernetes version that does not serve it"),
    column("use_instead", "USE INSTEAD", Kind::Text, "what to call instead"),
    column("last_seen", "LAST SEEN", Kind::Time, "when it was called last"),
    wide("first_seen", "FIRST SEEN", Kind::Time, "when it was called first"),
    column("object_kind", "KIND", Kind::Text, "kind of the objects"),
    column("old_objects", "OBJECTS", Kind::Count, "objects that were written in such a version"),
    column("written_in", "WRITTEN IN", Kind::Text, "group and version in which they were written"),
    column(
        "written_by",
        "BY",
        Kind::Text,
        "who wrote them so: kubectl apply, a manager of fields; a manifest itself: -",
    ),
];
