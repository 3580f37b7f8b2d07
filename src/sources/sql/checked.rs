//! What a query may ask. Polars' SQL answers some questions wrongly without a word; those are refused, with how to ask
//! instead, or written as it answers them rightly. (Found by comparing with DuckDB, polars 0.55.)

use super::rewritten::{function_name, is_column, is_narrow, literally, refused, searched, semi_joins};
use crate::model::problem::Problem;
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, OrderByKind, Query, Select, SelectItem,
    SetExpr, Statement, Value, VisitMut, VisitorMut, WindowType, visit_expressions,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// Operators of a query, at most: each is a step deeper for whoever works on it.
const MOST_OPERATORS: usize = 1000;

/// Characters of a column's name that is made of its expression, at most.
const LONGEST_NAME: usize = 60;

/// Columns whose names are words of SQL, and what follows these where they are meant as such.
const WORDS: [(&str, &[&str]); 3] = [("cluster", &["by"]), ("group", &["by", "("]), ("user", &["("])];

/// Functions that make one value of many rows.
const AGGREGATES: [&str; 21] = [
    "approx_count_distinct",
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar",
    "covar_pop",
    "covar_samp",
    "first",
    "last",
    "max",
    "median",
    "min",
    "quantile_cont",
    "quantile_disc",
    "stddev",
    "string_agg",
    "sum",
    "variance",
];

/// The query with such columns in quotes, so that nobody has to know them. What stands in quotes or comments already is
/// left as it is.
fn with_quoted_columns(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 16);
    let mut rest = sql;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\'' | '"' | '`' => rest[1..].find(c).map_or(rest.len(), |end| end + 2),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            c if c.is_alphanumeric() || c == '_' => {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        let next = after.trim_start().to_ascii_lowercase();
        let is_column = WORDS.iter().any(|(word, followers)| {
            token.eq_ignore_ascii_case(word) && !followers.iter().any(|follower| next.starts_with(follower))
        });
        match is_column {
            true => out.extend(["\"", &token.to_ascii_lowercase(), "\""]),
            false => out += token,
        }
        rest = after;
    }
    out
}

/// The query as polars is to be asked; `tables` are there, whatever the query calls its own.
pub(super) fn checked(sql: &str, tables: &[&str]) -> Result<String, Problem> {
    let sql = with_quoted_columns(sql);
    let parsed = Parser::parse_sql(&GenericDialect {}, &sql);
    let mut statements = parsed.map_err(|error| {
        let text = error.to_string();
        Problem::setting(text.strip_prefix("sql parser error: ").unwrap_or(&text).to_owned())
    })?;
    let (Some(Statement::Query(_)), 1) = (statements.first(), statements.len()) else {
        let what = if statements.len() > 1 { "several statements" } else { "no query" };
        return Err(Problem::setting(what).hint("write one select; .schema lists tables and columns"));
    };
    let mut checks = Checks { tables, operators: 0, selects: 0, without_from: false };
    if let ControlFlow::Break(problem) = statements.visit(&mut checks) {
        return Err(problem);
    }
    if checks.without_from && checks.selects > 1 {
        return refused("a part that reads no table", "read from a table, or ask for the values alone");
    }
    Ok(statements.iter().map(Statement::to_string).collect())
}

struct Checks<'t> {
    tables: &'t [&'t str],
    operators: usize,
    selects: usize,
    /// Whether a part reads no table.
    without_from: bool,
}

impl VisitorMut for Checks<'_> {
    type Break = Problem;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Problem> {
        flow(self.names(query).and_then(|()| ordered(query)))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Problem> {
        self.selects += 1;
        self.without_from |= select.from.is_empty();
        flow(grouped(select).and_then(|()| alone(select)).and_then(|()| {
            let mut joins = select.from.iter().flat_map(|table| &table.joins);
            joins.try_for_each(join)
        }))?;
        select.projection.iter_mut().for_each(name);
        semi_joins(select);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Problem> {
        if is_narrow(expr) {
            let inner = Box::new(expr.clone());
            let data_type = DataType::BigInt(None);
            *expr = Expr::Cast { kind: CastKind::Cast, expr: inner, data_type, array: false, format: None };
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Problem> {
        match expr {
            Expr::Function(function) => flow(searched(function).and_then(|()| call(function))),
            // Of these polars loses the rows whose condition is unknown.
            Expr::IsTrue(_) | Expr::IsNotTrue(_) | Expr::IsFalse(_) | Expr::IsNotFalse(_) => {
                if let Some(known) = known(expr) {
                    *expr = known;
                }
                ControlFlow::Continue(())
            }
            // It would hold all of them once for each row.
            Expr::InSubquery { negated: true, .. } => {
                flow(refused("not in (select …)", "write left anti join (select …) x on a.column = x.column"))
            }
            Expr::InSubquery { .. } => flow(refused(
                "in (select …) of more than one table, or within or, not or case",
                "write left semi join (select …) x on a.column = x.column",
            )),
            Expr::Position { expr: what, .. } => flow(literally(what, "position")),
            Expr::BinaryOp { .. } => {
                self.operators += 1;
                flow(match self.operators > MOST_OPERATORS {
                    true => Err(Problem::setting(format!("more than {MOST_OPERATORS} operators"))
                        .hint("write in (…) for a list of values")),
                    false => Ok(()),
                })
            }
            Expr::Value(value) => {
                // Polars reads no exponents.
                if let Value::Number(text, _) = &mut value.value
                    && text.contains(['e', 'E'])
                    && let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite())
                {
                    *text = number.to_string() + if number.fract() == 0.0 { ".0" } else { "" };
                }
                // Times as plimsoll prints them; columns have no zone, and are in UTC.
                if let Value::SingleQuotedString(text) = &mut value.value
                    && text.contains('T')
                    && let Some(plain) = text.strip_suffix('Z').map(str::to_owned)
                    && text.parse::<jiff::Timestamp>().is_ok()
                {
                    *text = plain;
                }
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn flow(result: Result<(), Problem>) -> ControlFlow<Problem> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(problem) => ControlFlow::Break(problem),
    }
}

/// Of windows over all rows, and nothing else, polars gives one row.
fn alone(select: &Select) -> Result<(), Problem> {
    let columns = |expr: &Expr| {
        let mut all = 0;
        let _ = visit_expressions(expr, |part| {
            all += usize::from(matches!(part, Expr::Identifier(_) | Expr::CompoundIdentifier(_)));
            ControlFlow::<()>::Continue(())
        });
        all
    };
    let is_over_all = |item: &SelectItem| {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return false };
        let (mut windows, mut within) = (0, 0);
        let _ = visit_expressions(expr, |part| {
            if let Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) = part
                && spec.partition_by.is_empty()
                && spec.order_by.is_empty()
            {
                (windows, within) = (windows + 1, within + columns(part));
            }
            ControlFlow::<()>::Continue(())
        });
        windows > 0 && columns(expr) <= within
    };
    match !select.from.is_empty() && !select.projection.is_empty() && select.projection.iter().all(is_over_all) {
        true => refused("over () alone", "select a column beside it, or leave over () out"),
        false => Ok(()),
    }
}

/// `is true` and the like, as a condition that is never unknown.
fn known(expr: &Expr) -> Option<Expr> {
    let text = match expr {
        Expr::IsTrue(inner) => format!("coalesce({inner}, false)"),
        Expr::IsNotTrue(inner) => format!("not coalesce({inner}, false)"),
        Expr::IsFalse(inner) => format!("not coalesce({inner}, true)"),
        Expr::IsNotFalse(inner) => format!("coalesce({inner}, true)"),
        _ => return None,
    };
    let inner = Parser::new(&GenericDialect {}).try_with_sql(&text).ok()?.parse_expr().ok()?;
    Some(Expr::Nested(Box::new(inner)))
}

impl Checks<'_> {
    /// A query's own tables are not called as those that are there, which would be read in their place.
    fn names(&self, query: &Query) -> Result<(), Problem> {
        let own = query.with.iter().flat_map(|with| &with.cte_tables).map(|own| &own.alias.name.value);
        match own.into_iter().find(|name| self.tables.contains(&name.as_str())) {
            Some(name) => refused(format!("with {name} as …, where {name} is a table"), "give it another name"),
            None => Ok(()),
        }
    }
}

fn is_aggregate(function: &Function) -> bool {
    let name = function_name(function);
    // `stddev_samp`, `var_pop` and the like.
    AGGREGATES.contains(&name.as_str()) || name.starts_with("stddev_") || name.starts_with("var_")
}

/// Whether a part of an expression is as asked.
fn any(expr: &Expr, is_it: impl Fn(&Expr) -> bool) -> bool {
    let visit = |part: &Expr| if is_it(part) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    visit_expressions(expr, visit).is_break()
}

fn has_aggregate(expr: &Expr) -> bool {
    any(expr, |part| matches!(part, Expr::Function(own) if own.over.is_none() && is_aggregate(own)))
}

/// Rows in the order of an aggregate: by the number of its column; by itself it would order nothing. Nulls come last.
fn ordered(query: &mut Query) -> Result<(), Problem> {
    let items: Vec<Option<String>> = match query.body.as_ref() {
        SetExpr::Select(select) => select.projection.iter().map(text_of).collect(),
        _ => Vec::new(),
    };
    let Some(OrderByKind::Expressions(all)) = query.order_by.as_mut().map(|order| &mut order.kind) else {
        return Ok(());
    };
    for order in all {
        if has_aggregate(&order.expr) {
            let own = order.expr.to_string();
            let place = items.iter().position(|item| item.as_deref() == Some(own.as_str()));
            let Some(place) = place.filter(|_| items.iter().all(Option::is_some)) else {
                return refused(format!("order by {own}"), "name it in the select list and order by that name");
            };
            order.expr = Expr::Value(Value::Number((place + 1).to_string(), false).into());
        }
        order.options.nulls_first.get_or_insert(false);
    }
    Ok(())
}

/// What a column of the answer is made of; `None` where it stands for several.
fn text_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.to_string()),
        _ => None,
    }
}

/// Calls a column that has no name after its expression.
fn name(item: &mut SelectItem) {
    let SelectItem::UnnamedExpr(expr) = item else { return };
    let is_several = |expr: &Expr| match expr {
        Expr::Function(own) => ["columns", "unnest"].contains(&function_name(own).as_str()),
        Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => true,
        _ => false,
    };
    if is_column(expr) || any(expr, is_several) {
        return;
    }
    let text: String = expr.to_string().replace(['"', '\n'], "'").chars().take(LONGEST_NAME).collect();
    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', text) };
}

/// Windows over groups see the rows, and not the groups.
fn grouped(select: &Select) -> Result<(), Problem> {
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(all, _) => !all.is_empty(),
    };
    let is_window = |expr: &Expr| any(expr, |part| matches!(part, Expr::Function(own) if own.over.is_some()));
    let has_window = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => is_window(expr),
        _ => false,
    });
    match is_grouped && has_window {
        true => refused("a window over groups", "group in a subquery, and put the window around it"),
        false => Ok(()),
    }
}

/// Joins are on columns alone. Of other conditions outer joins drop some, or keep what they should not, and inner ones
/// take columns of the same name in both tables for one another.
fn join(join: &Join) -> Result<(), Problem> {
    use JoinOperator as Is;
    let (constraint, is_inner) = match &join.join_operator {
        Is::Join(constraint) | Is::Inner(constraint) => (constraint, true),
        Is::Left(constraint)
        | Is::LeftOuter(constraint)
        | Is::Right(constraint)
        | Is::RightOuter(constraint)
        | Is::FullOuter(constraint)
        | Is::Semi(constraint)
        | Is::LeftSemi(constraint)
        | Is::RightSemi(constraint)
        | Is::Anti(constraint)
        | Is::LeftAnti(constraint)
        | Is::RightAnti(constraint) => (constraint, false),
        _ => return Ok(()),
    };
    fn is_plain(expr: &Expr, is_inner: bool) -> bool {
        use BinaryOperator as Op;
        match expr {
            Expr::Nested(inner) => is_plain(inner, is_inner),
            Expr::BinaryOp { left, op: Op::And, right } => is_plain(left, is_inner) && is_plain(right, is_inner),
            Expr::BinaryOp { left, op, right } => {
                let compares = matches!(op, Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq);
                (*op == Op::Eq || is_inner && compares) && is_column(left) && is_column(right)
            }
            _ => false,
        }
    }
    // Without an equality polars has nothing to join by.
    fn has_equality(expr: &Expr) -> bool {
        use BinaryOperator as Op;
        match expr {
            Expr::Nested(inner) => has_equality(inner),
            Expr::BinaryOp { left, op: Op::And, right } => has_equality(left) || has_equality(right),
            Expr::BinaryOp { op, .. } => *op == Op::Eq,
            _ => false,
        }
    }
    match constraint {
        JoinConstraint::On(expr) if !is_plain(expr, is_inner) || !has_equality(expr) => refused(
            format!("a join on {expr}"),
            "join on equal columns only; put other conditions into where, or into a subquery of their table",
        ),
        _ => Ok(()),
    }
}

/// Calls of aggregates, over rows and over windows, and the order of windows.
fn call(function: &Function) -> Result<(), Problem> {
    let name = function_name(function);
    if let Some(WindowType::WindowSpec(spec)) = &function.over
        && spec.order_by.iter().any(|order| order.options.nulls_first == Some(false))
    {
        return refused("nulls last in over (…)", "nulls come first there; leave them out with where … is not null");
    }
    if name == "last_value" && function.over.is_none() {
        return refused("last_value() without over (…)", "take last()");
    }
    if name == "last_value" && matches!(&function.over, Some(WindowType::WindowSpec(spec)) if !spec.order_by.is_empty())
    {
        return refused("last_value()", "order the other way round, and take first_value()");
    }
    if !is_aggregate(function) {
        return Ok(());
    }
    match &function.over {
        Some(WindowType::NamedWindow(_)) => {
            return refused("a window that has a name", "write the window in over (…)");
        }
        Some(WindowType::WindowSpec(spec)) if !spec.order_by.is_empty() => {
            if !["sum", "count", "min", "max"].contains(&name.as_str()) {
                return refused(
                    format!("{name}() over (order by …)"),
                    "divide sum() by count(), or leave the order out",
                );
            }
            if spec.window_frame.is_none() {
                return refused(
                    format!("{name}() over (order by …) where several rows are equal in order"),
                    "write over (… order by … rows between unbounded preceding and current row)",
                );
            }
        }
        _ => {}
    }
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    if name == "string_agg" && list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        return refused("string_agg(distinct …)", "take string_agg() of a subquery with select distinct");
    }
    let reads = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => any(expr, is_column),
        _ => true,
    };
    match name != "count" && !list.args.iter().any(reads) {
        true => refused(format!("{name}() of no column"), "count(*) counts rows"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_words_of_sql_need_no_quotes() {
        for (sql, quoted) in [
            (
                "select verb, cluster from a group by verb, Cluster",
                "select verb, \"cluster\" from a group by verb, \"cluster\"",
            ),
            (
                "select t.user, group from t group  by user, \"group\"",
                "select t.\"user\", \"group\" from t group  by \"user\", \"group\"",
            ),
            (
                "select 'user, cluster' -- cluster\n, /* user */ user()",
                "select 'user, cluster' -- cluster\n, /* user */ user()",
            ),
            ("select users, cluster_id, 'it''s user', 'open", "select users, cluster_id, 'it''s user', 'open"),
            (
                "select x over (partition by cluster order by y), ü",
                "select x over (partition by \"cluster\" order by y), ü",
            ),
        ] {
            assert_eq!(with_quoted_columns(sql), quoted);
        }
    }

    #[test]
    fn queries_are_asked_as_polars_answers_them() {
        let asked = |sql: &str| checked(sql, &["audit"]).unwrap();
        assert_eq!(
            asked("select verb, count(*) from audit group by verb order by count(*) desc"),
            "SELECT verb, CAST(count(*) AS BIGINT) AS \"count(*)\" FROM audit GROUP BY verb ORDER BY 2 DESC NULLS LAST"
        );
        assert_eq!(
            asked("select max(code) m from audit where event_time > '2026-11-20T09:20:00.5Z' order by max(code)"),
            "SELECT max(code) AS m FROM audit WHERE event_time > '2026-11-20T09:20:00.5' ORDER BY 1 NULLS LAST"
        );
        assert_eq!(
            asked("select extract(minute from t) * 60 as m from audit where strpos(uri, 'a.b?') > 0"),
            "SELECT CAST(EXTRACT(MINUTE FROM t) AS BIGINT) * 60 AS m FROM audit \
             WHERE CAST(strpos(uri, 'a\\.b\\?') AS BIGINT) > 0"
        );
        assert_eq!(
            asked("select x from audit where y = 1 and (x in (select z from b where c = 2)) and v > 0"),
            "SELECT x FROM audit LEFT SEMI JOIN (SELECT z AS in_value FROM b WHERE c = 2) AS in_0 \
             ON x = in_0.in_value WHERE y = 1 AND v > 0"
        );
        assert_eq!(asked("select 1e3 as a, 25E-8 as b"), "SELECT 1000.0 AS a, 0.00000025 AS b");
        assert_eq!(
            asked("select x from audit where (x = 1) is not true and late is false"),
            "SELECT x FROM audit WHERE (NOT coalesce((x = 1), false)) AND (NOT coalesce(late, true))"
        );
        for (sql, what) in [
            ("select verb from audit group by verb order by count(*)", "order by count(*)"),
            ("select *, count(*) from audit group by all order by count(*)", "order by count(*)"),
            ("select sum(1) from audit", "sum() of no column"),
            ("select verb, max('x') from audit group by verb", "max() of no column"),
            ("select * from a left join b on a.x = b.x and b.y = 'z'", "a join on"),
            ("select * from a left anti join b on a.x = b.x and b.y > 1", "a join on"),
            ("select * from a join b on a.x = b.x and b.y = 'z'", "a join on"),
            ("select * from a left join b on a.x = b.x and a.y < b.y", "a join on"),
            ("select x from a where x not in (select x from b)", "not in (select"),
            ("select x from a where y = 1 or x in (select x from b)", "in (select …) of more than one table"),
            ("select x from a join b on a.y = b.y where x in (select x from c)", "in (select …) of more"),
            ("select last_value(x) over (order by y) from a", "last_value()"),
            ("select last_value(x) from a", "last_value()"),
            ("select * from a join b on a.x > b.x", "a join on"),
            ("select count(*) over () as n, sum(x) over () + 1 from a", "over () alone"),
            ("select strpos(x, y) from a", "strpos() of what stands in a column"),
            ("select position(y in x) from a", "position() of what stands in a column"),
            ("select avg(x) over (order by y) from a", "avg() over (order by …)"),
            ("select sum(x) over (order by y) from a", "several rows are equal"),
            ("select rank() over (order by y desc nulls last) from a", "nulls last in over"),
            ("select string_agg(distinct x, ',') from a", "string_agg(distinct …)"),
            ("select code, rank() over (order by code) from a group by code", "a window over groups"),
            ("with audit as (select 1 as x) select * from audit", "where audit is a table"),
            ("select count(*) from (select 1 as a union all select 2)", "a part that reads no table"),
            ("delete from audit", "no query"),
            ("select 1; select 2", "several statements"),
            ("selec 1", "Expected: an SQL statement"),
        ] {
            let problem = checked(sql, &["audit"]).unwrap_err().to_string();
            assert!(problem.contains(what), "{sql}: {problem}");
        }
        for fine in [
            "select count(1), count(*) from audit",
            "select sum(x) over (partition by z order by y rows between unbounded preceding and current row) from a",
            "select * from a left join b on (a.x = b.x) and a.y = b.y",
            "select * from a join b on a.x = b.x and (a.y <> b.y) where b.y = 'z'",
            "select x from a where x in (select x from b) and y not in ('a', 'b')",
            "with b as (select x from audit) select sum(case when x > 1 then 1 else 0 end) from b",
            "select row_number() over (order by y) from a",
            "select x, count(*) over () as n from a",
            "select x - avg(x) over () as off from a",
        ] {
            assert!(checked(fine, &["audit"]).is_ok(), "{fine}");
        }
    }

    #[test]
    fn long_queries_are_refused() {
        let deep = |terms: usize| format!("select x from a where {}", vec!["x = 1"; terms].join(" or "));
        let sql = deep(3_000);
        let work = std::thread::Builder::new().stack_size(256 << 20).spawn(move || checked(&sql, &[])).unwrap();
        assert!(work.join().unwrap().unwrap_err().to_string().contains("operators"));
        assert!(checked(&deep(400), &[]).is_ok());
    }
}
