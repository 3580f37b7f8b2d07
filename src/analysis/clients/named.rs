//! Which user is meant: people name clients as they see them, in logs, tables and findings.

use super::Clients;
use crate::analysis::dims::{folded, short_user};
use std::collections::BTreeSet;

/// Near names that are listed, at most.
const MAX_SUGGESTIONS: usize = 5;

/// Why a name stands for no user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unnamed {
    /// Nobody is called so; some are nearly.
    #[error("no request in the logs comes from a user, service account or agent of this name{}", near(.0))]
    Unknown(Vec<String>),
    /// Several users run this agent.
    #[error("an agent of several users; name one of them: {}", .0.join(", "))]
    Several(Vec<String>),
}

fn near(names: &[String]) -> String {
    if names.is_empty() {
        "; plimsoll clients lists them".to_owned()
    } else {
        format!("; near it: {}", names.join(", "))
    }
}

/// The user that a name stands for: a user, a service account as `NAMESPACE:NAME` or `NAMESPACE/NAME`, an agent that
/// only one user runs, or `AGENT (USER)` as findings have it.
pub fn resolve<'r>(clients: &Clients<'r>, asked: &str) -> Result<&'r str, Unnamed> {
    let users: BTreeSet<&'r str> = clients.list.iter().map(|profile| profile.who.user).collect();
    let of = |wanted: &dyn Fn(&str) -> bool| users.iter().copied().find(|user| wanted(user));
    let with_colon = asked.replacen('/', ":", 1);
    let is_short = |user: &str| short_user(user) == asked || short_user(user) == with_colon;
    if let Some(user) =
        of(&|user| user == asked).or_else(|| of(&|user| user == folded(asked))).or_else(|| of(&is_short))
    {
        return Ok(user);
    }
    if let Some((_, user)) = asked.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        return resolve(clients, user);
    }
    let product = asked.split(['/', ' ']).next().unwrap_or_default();
    let agents =
        clients.list.iter().filter(|profile| !product.is_empty() && [asked, product].contains(&profile.who.agent));
    let of_agent: BTreeSet<&'r str> = agents.map(|profile| profile.who.user).collect();
    match of_agent.len() {
        0 => Err(Unnamed::Unknown(nearest(clients, asked))),
        1 => of_agent.into_iter().next().ok_or_else(|| Unnamed::Unknown(Vec::new())),
        _ => Err(Unnamed::Several(of_agent.into_iter().map(str::to_owned).collect())),
    }
}

/// Users and agents whose names are few letters away, or begin alike.
fn nearest(clients: &Clients<'_>, asked: &str) -> Vec<String> {
    let asked = short_user(asked).to_lowercase();
    let letters = asked.chars().count();
    // Of a name of two letters not every other one is near.
    let most = 2.max(letters / 3).min(letters.saturating_sub(1));
    let mut near: Vec<(usize, &str)> = Vec::new();
    for who in clients.list.iter().map(|profile| profile.who) {
        for name in [short_user(who.user), who.agent] {
            // Of a service account also its name alone.
            let alone = name.rsplit(':').next().unwrap_or(name).to_lowercase();
            let distances =
                [name.to_lowercase(), alone].map(|name| match name.starts_with(&asked) && !asked.is_empty() {
                    true => 0,
                    false => strsim::damerau_levenshtein(&name, &asked),
                });
            let distance = distances.into_iter().min().unwrap_or(usize::MAX);
            if distance <= most && !name.is_empty() {
                near.push((distance, name));
            }
        }
    }
    near.sort_unstable();
    let mut names: Vec<String> = Vec::new();
    for (_, name) in near {
        if !names.iter().any(|known| known == name) && names.len() < MAX_SUGGESTIONS {
            names.push(name.to_owned());
        }
    }
    names
}
