//! The report on a heap, or on two.

use super::findings::findings;
use super::groups::{GROUPS, GroupHeap};
use super::measure::{Counted, Measured};
use super::top::{By, Node};
use crate::model::flame::short_name;
use crate::model::input::InputReport;
use crate::model::problem::Problem;
use crate::model::report::{Report, Table, Value, Window};
use crate::model::stacks::SampleType;
use crate::model::time;
use crate::model::units::{bytes, counted, grouped, percent, signed_percent};
use serde_json::json;
use std::collections::HashMap;

/// What to make of it.
#[derive(Debug, Clone)]
pub struct Shape {
    /// What a row shows.
    pub by: By,
    /// Whether two profiles are compared.
    pub compares: bool,
    /// Sort by this field.
    pub sort_by: Option<String>,
    /// Show this many rows.
    pub top: Option<usize>,
    /// Whether names are shown in full.
    pub full_names: bool,
}

/// The columns of a row.
const FIELDS: [&str; 8] = ["function", "package", "file", "line", "flat", "cum", "flat_share", "cum_share"];
/// Those that a comparison has beside.
const CHANGES: [&str; 4] = ["base_flat", "base_cum", "flat_change", "cum_change"];

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn change([before, now]: [u64; 2]) -> f64 {
    now as f64 - before as f64
}

/// A row for machines.
fn row(node: &Node<'_>, measured: &Measured<'_>, shape: &Shape) -> Vec<Value> {
    let key = &node.key;
    let line = |line: i64| u64::try_from(line).ok().filter(|line| *line > 0).map_or(Value::None, Value::Count);
    let (function, package) = if shape.by == By::Package {
        (Value::None, Value::text(&*key.name))
    } else {
        (Value::text(&*key.name), Value::None)
    };
    let (file, line) = match shape.by {
        By::Function => {
            let (file, start) = node.place();
            (Value::text(file), line(start))
        }
        _ => (Value::text(&*key.file), line(key.line)),
    };
    let [flat, cum] = [node.flat[1], node.cum[1]];
    let shares = [flat, cum].map(|part| share(part, measured.total[1]).into());
    let mut row = vec![function, package, file, line, flat.into(), cum.into()];
    row.extend(shares);
    if shape.compares {
        row.extend([node.flat[0].into(), node.cum[0].into(), change(node.flat).into(), change(node.cum).into()]);
    }
    row
}

/// A value as it is compared.
fn number(value: &Value, is_change: bool) -> Option<f64> {
    match value {
        Value::Count(count) => Some(*count as f64),
        // A comparison is about what changed most, up or down.
        Value::Number(number) => Some(if is_change { number.abs() } else { *number }),
        _ => None,
    }
}

/// Numbers from the largest, text from the smallest; what is not known last.
fn order(a: &Value, b: &Value, is_change: bool) -> std::cmp::Ordering {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Text(_), _) => std::cmp::Ordering::Less,
        (_, Value::Text(_)) => std::cmp::Ordering::Greater,
        (a, b) => number(b, is_change).unwrap_or(f64::MIN).total_cmp(&number(a, is_change).unwrap_or(f64::MIN)),
    }
}

/// The rows that are shown, sorted by a field, the first before the second, then by name. Of a large profile nearly all
/// rows are not shown: those are neither sorted nor made.
fn sorted<'n, 's>(
    measured: &'n Measured<'s>,
    columns: &[String],
    shape: &Shape,
) -> Result<Vec<(&'n Node<'s>, Vec<Value>)>, Problem> {
    let column = shape.sort_by.as_ref().map(|field| {
        let column = columns.iter().position(|column| column == field);
        column.ok_or_else(|| {
            Problem::setting("unknown field")
                .at(format!("--sort-by {field}"))
                .hint(format!("use one of: {}", columns.join(", ")))
        })
    });
    let column = column.transpose()?;
    let is_change = column.map_or(shape.compares, |column| columns[column].ends_with("_change"));
    let keys = |node: &Node<'_>| match column {
        Some(column) => [row(node, measured, shape).swap_remove(column), Value::None],
        None if shape.compares => [change(node.flat).into(), change(node.cum).into()],
        None => [node.flat[1].into(), Value::None],
    };
    type Keyed<'a, 'b> = (&'a Node<'b>, [Value; 2]);
    let before = |(a, left): &Keyed<'_, '_>, (b, right): &Keyed<'_, '_>| {
        order(&left[0], &right[0], is_change)
            .then_with(|| order(&left[1], &right[1], is_change))
            .then_with(|| a.key.cmp(&b.key))
    };
    let all = &measured.nodes;
    let mut nodes: Vec<Keyed<'_, '_>> = Vec::new();
    match shape.top.filter(|top| *top < all.len()) {
        Some(top) => {
            // Names are long and begin alike: only what comes near the top by its number is compared by name.
            let numbers: Vec<Option<f64>> = all.iter().map(|node| number(&keys(node)[0], is_change)).collect();
            let mut known: Vec<f64> = numbers.iter().copied().flatten().collect();
            let mut least = None;
            if top > 0 && known.len() == all.len() {
                least = Some(*known.select_nth_unstable_by(top - 1, |a, b| b.total_cmp(a)).1);
            }
            let near = all
                .iter()
                .zip(numbers)
                .filter(|(_, number)| least.is_none_or(|least| number.is_some_and(|number| number >= least)));
            nodes.extend(near.map(|(node, _)| (node, keys(node))));
            nodes.sort_unstable_by(before);
            nodes.truncate(top);
        }
        None => nodes.extend(all.iter().map(|node| (node, keys(node)))),
    }
    nodes.sort_unstable_by(before);
    Ok(nodes.into_iter().map(|(node, _)| (node, row(node, measured, shape))).collect())
}

/// A value as a person reads it.
fn value_text(value: u64, unit: &str) -> String {
    if unit == "bytes" {
        bytes(value as f64)
    } else {
        format!("{} {}", grouped(value), if unit == "count" { "" } else { unit }).trim_end().to_owned()
    }
}

/// Names as short as they can be while they distinguish the rows.
fn short_names(names: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = names.iter().map(|name| short_name(name, 1).into_owned()).collect();
    for elements in 2..=4 {
        let mut met: HashMap<String, Option<&str>> = HashMap::new();
        for (short, name) in found.iter().zip(names) {
            met.entry(short.clone()).and_modify(|of| *of = of.filter(|of| of == name)).or_insert(Some(name));
        }
        for (short, name) in found.iter_mut().zip(names) {
            if met.get(short) == Some(&None) {
                *short = short_name(name, elements).into_owned();
            }
        }
    }
    found
}

/// The rows for people.
fn for_people(rows: &[(&Node<'_>, Vec<Value>)], measured: &Measured<'_>, shape: &Shape) -> Table {
    let unit = if measured.kind.unit == "bytes" { "bytes" } else { "count" };
    let columns: Vec<String> = if shape.compares {
        vec![format!("flat_change_{unit}"), format!("cum_change_{unit}"), format!("flat_{unit}"), format!("cum_{unit}")]
    } else {
        vec![format!("flat_{unit}"), "flat_share".to_owned(), format!("cum_{unit}"), "cum_share".to_owned()]
    };
    let of_file = |file: &str| if shape.full_names { file.to_owned() } else { short_name(file, 3).into_owned() };
    let names: Vec<&str> = rows.iter().map(|(node, _)| &*node.key.name).collect();
    let names: Vec<String> = match (shape.by, shape.full_names) {
        (By::File, _) => rows.iter().map(|(node, _)| of_file(&node.key.file)).collect(),
        (_, true) | (By::Package, _) => names.iter().map(|name| (*name).to_owned()).collect(),
        _ => short_names(&names),
    };
    let mut columns = columns;
    let about = if shape.by == By::Line { "function" } else { shape.by.name() };
    columns.push(about.to_owned());
    if shape.by == By::Line || shape.full_names && shape.by == By::Function {
        columns.extend(["file".to_owned(), "line".to_owned()]);
    }
    let rows = rows.iter().zip(names).map(|((node, row), name)| {
        let [flat, cum] = [node.flat, node.cum];
        let mut values = if shape.compares {
            vec![change(flat).into(), change(cum).into(), flat[1].into(), cum[1].into()]
        } else {
            vec![flat[1].into(), row[6].clone(), cum[1].into(), row[7].clone()]
        };
        values.push(Value::Text(if name.is_empty() { "(none)".to_owned() } else { name }));
        if columns.len() > 5 {
            let file = match &row[2] {
                Value::Text(file) if !shape.full_names => {
                    Value::Text(file.rsplit('/').next().unwrap_or_default().to_owned())
                }
                other => other.clone(),
            };
            values.extend([file, row[3].clone()]);
        }
        values
    });
    let rows = rows.collect();
    Table { name: "top".to_owned(), columns, rows, ..Table::default() }
}

/// What the groups hold; for people, with the unit in the name of its column.
fn groups(measured: &Measured<'_>, shape: &Shape, for_people: bool) -> Table {
    let unit = match (for_people, measured.kind.unit.as_str()) {
        (false, _) => "",
        (true, "bytes") => "_bytes",
        (true, _) => "_count",
    };
    let mut rows: Vec<(usize, &GroupHeap)> =
        measured.groups.iter().enumerate().filter(|(_, held)| held.weight != [0; 2]).collect();
    let size = |held: &GroupHeap| if shape.compares { change(held.weight).abs() } else { held.weight[1] as f64 };
    rows.sort_by(|(_, a), (_, b)| size(b).total_cmp(&size(a)));
    // Of a comparison there is no room for both, and the change is what it is about.
    let with_share = !(for_people && shape.compares);
    let mut columns = vec!["group".to_owned(), format!("held{unit}")];
    columns.extend(with_share.then(|| "held_share".to_owned()));
    columns.extend(shape.compares.then(|| format!("held_change{unit}")));
    columns.push("explanation".to_owned());
    let rows = rows.iter().map(|(number, held)| {
        let mut row = vec![GROUPS[*number].name.into(), held.weight[1].into()];
        row.extend(with_share.then(|| share(held.weight[1], measured.total[1]).into()));
        row.extend(shape.compares.then(|| change(held.weight).into()));
        row.push(GROUPS[*number].explanation.into());
        row
    });
    let title = if shape.compares { "By purpose, largest change first:" } else { "By purpose:" };
    Table { name: "groups".to_owned(), title: title.to_owned(), columns, rows: rows.collect(), ..Table::default() }
}

/// The first sentence: what, how much, of when.
fn lead(measured: &Measured<'_>, shape: &Shape) -> Vec<String> {
    let SampleType { name, unit } = &measured.kind;
    let taken = |when: usize| {
        let mut of: Vec<&Counted> = measured.profiles.iter().filter(|profile| profile.when == when).collect();
        of.sort_by_key(|profile| profile.at);
        let place = match of.as_slice() {
            [one] => {
                if one.instance.is_empty() {
                    one.path.clone()
                } else {
                    one.instance.clone()
                }
            }
            many => {
                let mut names: Vec<&str> = many
                    .iter()
                    .map(|one| if one.instance.is_empty() { one.path.as_str() } else { one.instance.as_str() })
                    .collect();
                names.truncate(3);
                let more = if many.len() > 3 { " …" } else { "" };
                format!("Sum of {}: {}{more}", counted(many.len() as u64, "profile"), names.join(", "))
            }
        };
        let at = of
            .iter()
            .filter_map(|profile| profile.at)
            .max()
            .map(|at| format!(" at {}", time::format(at)))
            .unwrap_or_default();
        (place, at)
    };
    let (place, at) = taken(1);
    let mut lead = if shape.compares {
        let (was, was_at) = taken(0);
        let [before, now] = measured.total;
        let by = share(now, before).map(|share| format!(" ({})", signed_percent(share - 1.0))).unwrap_or_default();
        vec![
            format!("{name}: {} → {}{by}.", value_text(before, unit), value_text(now, unit)),
            format!("From {was}{was_at} to {place}{at}."),
        ]
    } else {
        vec![format!("{name}: {}. {place}{at}.", value_text(measured.total[1], unit))]
    };
    if measured.selected != measured.total {
        let part = share(measured.selected[1], measured.total[1]).map(percent).unwrap_or_default();
        lead.push(format!(
            "The filters match {} of it ({part}); shares are of the total.",
            value_text(measured.selected[1], unit)
        ));
    }
    lead
}

/// The report; the error says what was asked for in vain.
pub fn report(measured: &Measured<'_>, inputs: Vec<InputReport>, shape: &Shape) -> Result<Report, Problem> {
    let mut columns: Vec<String> = FIELDS.iter().map(|field| (*field).to_owned()).collect();
    if shape.compares {
        columns.extend(CHANGES.iter().map(|field| (*field).to_owned()));
    }
    let rows = sorted(measured, &columns, shape)?;
    let all = measured.nodes.len();
    let mut people = Vec::new();
    if !measured.groups.is_empty() {
        people.push(groups(measured, shape, true));
    }
    people.push(for_people(&rows, measured, shape));
    let mut notes: Vec<String> =
        measured.idle.iter().map(|filter| format!("{filter} matches nothing in this profile.")).collect();
    if rows.len() < all {
        notes.push(format!("{} not shown; --top 0 shows all.", counted((all - rows.len()) as u64, "more row")));
    }
    let times = || measured.profiles.iter().filter_map(|profile| profile.at);
    let (from, to) = (times().min(), times().max());
    let window = Window::of(from.zip(to));
    let profiles: Vec<serde_json::Value> = (measured.profiles.iter())
        .map(|p| {
            json!({"path": p.path, "instance": p.instance, "at": p.at.map(time::format), "samples": p.samples,
            "base": shape.compares && p.when == 0})
        })
        .collect();
    let mut coverage = serde_json::Map::new();
    coverage.insert("source".to_owned(), json!("heap"));
    coverage.insert("profiles".to_owned(), json!(profiles));
    coverage.insert("sample_types".to_owned(), json!(measured.kinds));
    let mut totals: Vec<(String, Value)> = vec![
        ("sample_type".to_owned(), measured.kind.name.as_str().into()),
        ("unit".to_owned(), measured.kind.unit.as_str().into()),
        ("by".to_owned(), shape.by.name().into()),
        ("total".to_owned(), measured.total[1].into()),
        ("selected".to_owned(), measured.selected[1].into()),
    ];
    if shape.compares {
        totals.push(("base_total".to_owned(), measured.total[0].into()));
        totals.push(("change".to_owned(), change(measured.total).into()));
    }
    totals.push(("rows".to_owned(), (all as u64).into()));
    let mut tables = Vec::new();
    if !measured.groups.is_empty() {
        tables.push(groups(measured, shape, false));
    }
    Ok(Report {
        schema: format!("plimsoll.heap-{}/v1", if shape.compares { "diff" } else { "top" }),
        inputs,
        window,
        coverage,
        totals,
        table: Table { columns, rows: rows.into_iter().map(|(_, row)| row).collect(), ..Table::default() },
        tables,
        shown: shape.top,
        people: Some(people),
        lead: lead(measured, shape),
        notes,
        findings: findings(measured, shape.compares),
        ..Report::default()
    })
}
