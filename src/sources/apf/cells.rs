//! How a line of a dump page is cut into cells.
//!
//! The apiserver writes `a,` TAB `b,` TAB … through Go's tabwriter, which puts blanks for the tabs, so that all cells
//! of a column begin at the same character. It quotes nothing, and users, flows and paths may hold commas, blanks, even
//! tabs and newlines. So a line is cut where the headings begin. Where that does not fit (blanks were squeezed out, or
//! a newline in a name ended the alignment), it is cut at commas, and cells whose form is known say to which column the
//! rest belongs.

use crate::model::time::parse_any;

/// The columns of a page.
#[derive(Debug)]
pub(super) struct Columns<'h> {
    names: Vec<&'h str>,
    /// The character at which each heading begins.
    starts: Vec<usize>,
}

impl<'h> Columns<'h> {
    pub(super) fn new(heading: &'h str) -> Self {
        let (mut names, mut starts, mut at) = (Vec::new(), Vec::new(), 0);
        for part in heading.split(',') {
            let blanks = part.chars().take_while(|c| c.is_whitespace()).count();
            names.push(part.trim());
            starts.push(at + blanks);
            at += part.chars().count() + 1;
        }
        Self { names, starts }
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| *known == name)
    }

    pub(super) fn find_any(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.find(name))
    }

    /// A line's cells, one for each column.
    pub(super) fn cut<'l>(&self, line: &'l str) -> Option<Vec<&'l str>> {
        self.by_place(line)
            .filter(|cells| self.fits(cells))
            .or_else(|| self.by_form(line).filter(|cells| self.fits(cells)))
    }

    /// Cuts where the headings begin; each cell but the last must end in a comma and blanks.
    fn by_place<'l>(&self, line: &'l str) -> Option<Vec<&'l str>> {
        let mut bytes = line.char_indices().map(|(byte, _)| byte).chain([line.len()]);
        let mut at = 0;
        let mut edges = Vec::with_capacity(self.starts.len() + 1);
        for start in &self.starts {
            // Editors remove blanks at the end of a line, and with them empty cells.
            edges.push(if *start >= at { bytes.nth(*start - at).unwrap_or(line.len()) } else { return None });
            at = start + 1;
        }
        edges.push(line.len());
        let cells = edges.windows(2).enumerate().map(|(column, edge)| {
            let cell = line[edge[0]..edge[1]].trim_end_matches(' ');
            let last = column + 1 == self.starts.len();
            let text = if last {
                Some(cell)
            } else {
                cell.strip_suffix(',').or_else(|| (edge[0] == line.len()).then_some(cell))
            };
            // Blanks before the text would mean that the cell begins elsewhere. A name of blanks looks like that too;
            // then commas decide.
            text.filter(|text| !text.starts_with(' '))
        });
        cells.collect()
    }

    /// Cuts at commas. Where there are more than there are columns, cells of known form divide the line.
    fn by_form<'l>(&self, line: &'l str) -> Option<Vec<&'l str>> {
        let mut pieces: Vec<(usize, usize)> = Vec::new();
        let mut begin = 0;
        for (comma, _) in line.match_indices(',') {
            pieces.push((begin, comma));
            begin = comma + 1;
        }
        pieces.push((begin, line.len()));
        let text = |(from, to): (usize, usize)| line[from..to].trim();
        if pieces.len() == self.names.len() {
            return Some(pieces.into_iter().map(text).collect());
        }
        let time = self.find("ArriveTime").filter(|time| *time > 0)?;
        let extra = pieces.len().checked_sub(self.names.len())?;
        // The flow stands right before the time of arrival, and takes what is too much there.
        let in_flow = (0..=extra).find(|more| parse_any(text(pieces[time + more])).is_some())?;
        let join = |pieces: &mut Vec<(usize, usize)>, column: usize, more: usize| {
            let end = pieces[column + more].1;
            pieces[column].1 = end;
            pieces.drain(column + 1..=column + more);
        };
        join(&mut pieces, time - 1, in_flow);
        let rest = extra - in_flow;
        if rest > 0 {
            // Behind the user stand a verb and a path; what is too much behind them belongs to the path.
            let user = self.find("UserName").filter(|user| user + 2 < self.names.len())?;
            let is_verb = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase());
            let in_user = (0..=rest).find(|more| {
                is_verb(text(pieces[user + 1 + more])) && text(pieces[user + 2 + more]).starts_with('/')
            })?;
            join(&mut pieces, user, in_user);
            join(&mut pieces, user + 2, rest - in_user);
        }
        Some(pieces.into_iter().map(text).collect())
    }

    /// Whether what must be a number or a time looks like one.
    fn fits(&self, cells: &[&str]) -> bool {
        const NUMBERS: [&str; 6] =
            ["QueueIndex", "RequestIndexInQueue", "Index", "PendingRequests", "WaitingRequests", "InitialSeats"];
        let is_number = |text: &str| {
            text.starts_with('<') || text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit())
        };
        cells.len() == self.names.len()
            && cells.first().is_some_and(|level| !level.is_empty())
            && NUMBERS.iter().filter_map(|name| self.find(name)).all(|at| !cells[at].is_empty() && is_number(cells[at]))
            && ["ArriveTime", "StartTime"]
                .iter()
                .filter_map(|name| self.find(name))
                .all(|at| cells[at] == "<none>" || parse_any(cells[at]).is_some())
    }
}
