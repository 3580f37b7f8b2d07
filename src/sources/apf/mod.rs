//! The pages `/debug/api_priority_and_fairness/dump_*` of an apiserver: what APF holds at one moment.
//!
//! Columns are known by their headings, since each version of Kubernetes has had its own. How a line is cut into cells,
//! although names may hold commas and blanks: `cells.rs`.

mod cells;

use crate::model::apf::{Details, Level, Queue, Request, Rows};
use crate::model::time::{Micros, parse_any};
use cells::Columns;

/// Where an apiserver has the pages.
pub const PATHS: [&str; 3] = [
    "/debug/api_priority_and_fairness/dump_priority_levels",
    "/debug/api_priority_and_fairness/dump_queues",
    "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1",
];

/// A page may not be longer: queues bound how many requests there can be, so that real ones are far below.
pub const MAX_PAGE_BYTES: u64 = 32 << 20;

/// Which of the pages it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Levels,
    Queues,
    Requests,
}

/// A line that is no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: u64,
    /// Where it begins, in bytes from 0.
    pub offset: u64,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Whether `head` begins like one of the pages.
pub fn begins_like_one(head: &[u8]) -> bool {
    let end = memchr::memchr(b'\n', head).unwrap_or(head.len());
    std::str::from_utf8(&head[..end.min(4096)]).is_ok_and(|heading| kind(&Columns::new(heading)).is_some())
}

fn kind(columns: &Columns<'_>) -> Option<Kind> {
    let has = |name| columns.find(name).is_some();
    match has("PriorityLevelName") {
        true if has("FlowSchemaName") && has("ArriveTime") => Some(Kind::Requests),
        true if has("Index") && has("PendingRequests") => Some(Kind::Queues),
        true if has("IsIdle") && has("WaitingRequests") => Some(Kind::Levels),
        _ => None,
    }
}

/// Reads a page; `None` if it is none. Lines that are no rows are reported to `fault`.
pub fn read(page: &[u8], mut fault: impl FnMut(Fault)) -> Option<Rows> {
    let mut lines = page.split(|b| *b == b'\n');
    let heading = String::from_utf8_lossy(lines.next()?);
    let columns = Columns::new(heading.trim_end_matches('\r'));
    let kind = kind(&columns)?;
    let mut rows = Reader { columns: &columns, levels: Vec::new(), queues: Vec::new(), requests: Vec::new() };
    let mut offset = heading.len() as u64 + 1;
    for (number, line) in (2..).zip(lines) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches('\r');
        if !text.trim().is_empty()
            && let Err(what) = rows.line(kind, text)
        {
            fault(Fault { line: number, offset, what });
        }
        offset += line.len() as u64 + 1;
    }
    let Reader { levels, queues, requests, .. } = rows;
    Some(match kind {
        Kind::Levels => Rows::Levels(levels),
        Kind::Queues => Rows::Queues(queues),
        Kind::Requests => Rows::Requests {
            requests,
            details: columns.find("UserName").is_some(),
            executing: columns.find("StartTime").is_some(),
        },
    })
}

/// What the lines of a page gave so far.
struct Reader<'h> {
    columns: &'h Columns<'h>,
    levels: Vec<Level>,
    queues: Vec<Queue>,
    requests: Vec<Request>,
}

impl Reader<'_> {
    fn line(&mut self, kind: Kind, line: &str) -> Result<(), &'static str> {
        let cells = self.columns.cut(line).ok_or("its cells do not match the headings")?;
        let row = Row { columns: self.columns, cells };
        match kind {
            Kind::Levels => self.levels.push(row.level()?),
            Kind::Queues => {
                // A level without queues, as `exempt` was, has one row of `<none>`.
                if row.cell("Index") != "<none>" {
                    self.queues.push(row.queue()?);
                }
            }
            Kind::Requests => {
                // Kubernetes 1.18 made up a request of `<none>` for each exempt level.
                if row.cell("ArriveTime") != "<none>" {
                    self.requests.push(row.request()?);
                }
            }
        }
        Ok(())
    }
}

/// A line, cut into cells.
struct Row<'c> {
    columns: &'c Columns<'c>,
    cells: Vec<&'c str>,
}

impl Row<'_> {
    fn cell(&self, name: &str) -> &str {
        self.columns.find(name).and_then(|at| self.cells.get(at)).copied().unwrap_or_default()
    }

    fn text(&self, name: &str) -> String {
        self.cell(name).to_owned()
    }

    /// A count; `None` where the page has no such column, or says `<none>`.
    fn count(&self, name: &str) -> Result<Option<u64>, &'static str> {
        match self.cell(name) {
            "" | "<none>" | "<idle>" => Ok(None),
            text => text.parse().map(Some).map_err(|_| "a count is not a number"),
        }
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, &'static str> {
        match self.cell(name) {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            "" | "<none>" => Ok(None),
            _ => Err("a boolean is neither true nor false"),
        }
    }

    fn level(&self) -> Result<Level, &'static str> {
        Ok(Level {
            name: self.text("PriorityLevelName"),
            active_queues: self.count("ActiveQueues")?,
            idle: self.flag("IsIdle")?,
            quiescing: self.flag("IsQuiescing")?,
            waiting: self.count("WaitingRequests")?,
            executing: self.count("ExecutingRequests")?,
            dispatched: self.count("DispatchedRequests")?,
            rejected: self.count("RejectedRequests")?,
            timed_out: self.count("TimedoutRequests")?,
            cancelled: self.count("CancelledRequests")?,
        })
    }

    fn queue(&self) -> Result<Queue, &'static str> {
        Ok(Queue {
            level: self.text("PriorityLevelName"),
            index: self.count("Index")?,
            waiting: self.count("PendingRequests")?,
            executing: self.count("ExecutingRequests")?,
            seats: self.count("SeatsInUse")?,
        })
    }

    fn request(&self) -> Result<Request, &'static str> {
        let arrived = parse_any(self.cell("ArriveTime")).ok_or("the arrival time is not a time")?;
        // Go's zero time: it has not begun.
        let started = match self.cell("StartTime") {
            "" => None,
            text => parse_any(text).map(Some).ok_or("the start time is not a time")?.filter(|at: &Micros| *at > 0),
        };
        let seats = self.count("InitialSeats")?.max(self.count("FinalSeats")?);
        let details = self.columns.find("UserName").map(|_| Details {
            user: self.text("UserName"),
            verb: self.text("Verb"),
            path: self.text("APIPath"),
            namespace: self.text("Namespace"),
            name: self.text("Name"),
            version: self.text("APIVersion"),
            resource: self.text("Resource"),
            subresource: self.text("SubResource"),
        });
        Ok(Request {
            level: self.text("PriorityLevelName"),
            flow_schema: self.text("FlowSchemaName"),
            flow: self
                .columns
                .find_any(&["FlowDistingsher", "FlowDistinguisher"])
                .map_or_else(String::new, |at| self.cells[at].to_owned()),
            arrived,
            started,
            executes: started.is_some(),
            seats: seats.unwrap_or(1),
            details,
        })
    }
}

#[cfg(test)]
mod tests;
