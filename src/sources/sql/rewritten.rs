//! Queries that polars answers rightly once they are written in another way.

use crate::model::problem::Problem;
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join, Query, Select,
    SelectItem, SetExpr, Statement, Value,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

pub(super) fn refused<T>(what: impl Into<String>, hint: &'static str) -> Result<T, Problem> {
    Err(Problem::setting(format!("polars can't answer this rightly: {}", what.into())).hint(hint))
}

pub(super) fn function_name(function: &Function) -> String {
    function.name.to_string().to_ascii_lowercase()
}

pub(super) fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Nested(inner) => is_column(inner),
        _ => false,
    }
}

/// Functions that polars answers with numbers of 8 or 32 bits, whose sums and differences would begin again at 0.
const NARROW: [&str; 17] = [
    "approx_count_distinct",
    "array_length",
    "bit_length",
    "char_length",
    "character_length",
    "count",
    "date_part",
    "dense_rank",
    "length",
    "ntile",
    "octet_length",
    "rank",
    "regexp_count",
    "row_number",
    "strpos",
    "day",
    "year",
];

pub(super) fn is_narrow(expr: &Expr) -> bool {
    match expr {
        Expr::Extract { .. } | Expr::Position { .. } => true,
        Expr::Function(function) => NARROW.contains(&function_name(function).as_str()),
        _ => false,
    }
}

/// What is searched for is a regular expression for polars, and as it stands for everybody else.
pub(super) fn literally(what: &mut Expr, function: &str) -> Result<(), Problem> {
    match what {
        Expr::Value(value) => {
            if let Value::SingleQuotedString(text) = &mut value.value {
                *text = regex::escape(text);
            }
            Ok(())
        }
        _ => refused(format!("{function}() of what stands in a column"), "search for a text in quotes"),
    }
}

pub(super) fn searched(function: &mut Function) -> Result<(), Problem> {
    if function_name(function) != "strpos" {
        return Ok(());
    }
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    match list.args.get_mut(1) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(what))) => literally(what, "strpos"),
        _ => Ok(()),
    }
}

/// `where column in (select …)` as a semi join, which needs no row of the one beside each row of the other; only of one
/// table, and as a condition that must hold beside others: else it stays as it is, and is refused.
pub(super) fn semi_joins(select: &mut Select) {
    let [table] = &mut select.from[..] else { return };
    let Some(condition) = select.selection.take_if(|_| table.joins.is_empty()) else { return };
    let mut rest = Vec::new();
    let mut parts = vec![condition];
    while let Some(part) = parts.pop() {
        match part {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => parts.extend([*right, *left]),
            Expr::Nested(inner) if matches!(*inner, Expr::InSubquery { .. }) => parts.push(*inner),
            Expr::InSubquery { expr, mut subquery, negated: false } if is_column(&expr) => {
                let number = table.joins.len();
                match value_of(&mut subquery).and_then(|()| semi_join(&expr, &subquery, number)) {
                    Some(join) => table.joins.push(join),
                    None => rest.push(Expr::InSubquery { expr, subquery, negated: false }),
                }
            }
            other => rest.push(other),
        }
    }
    let and = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    };
    select.selection = rest.into_iter().reduce(and);
}

/// What the only column of such a query is called.
const IN_VALUE: &str = "in_value";

/// Names the only column of a query; `None` where it has several.
fn value_of(query: &mut Query) -> Option<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let [item] = &mut select.projection[..] else { return None };
    let expr = match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
        _ => return None,
    };
    *item = SelectItem::ExprWithAlias { expr, alias: Ident::new(IN_VALUE) };
    Some(())
}

fn semi_join(column: &Expr, query: &Query, number: usize) -> Option<Join> {
    let text = format!("select * from t left semi join ({query}) as in_{number} on {column} = in_{number}.{IN_VALUE}");
    let parsed = Parser::parse_sql(&GenericDialect {}, &text).ok()?.pop()?;
    let Statement::Query(query) = parsed else { return None };
    let SetExpr::Select(mut select) = *query.body else { return None };
    select.from.pop()?.joins.pop()
}
