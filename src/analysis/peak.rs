//! The busiest ten seconds of each row: counts by second of arrival, in bounded memory.

/// The width of the window, in seconds.
pub const WINDOW: i64 = 10;

/// Seconds held over all rows before the older ones are closed; 16 bytes each.
const MAX_HELD: usize = 1 << 18;

/// How far behind the newest second a count may still come in once there are too many to hold all.
const GRACE: i64 = 180;

/// Requests a second in the busiest window, of counts by second, which ascend.
pub fn peak_rps(arrivals: impl Iterator<Item = (i64, u64)> + Clone) -> f64 {
    let (mut best, mut sum, mut from) = (0_u64, 0, arrivals.clone().peekable());
    for (second, starts) in arrivals {
        sum += starts;
        while let Some((_, gone)) = from.next_if(|(earlier, _)| second - *earlier >= WINDOW) {
            sum -= gone;
        }
        best = best.max(sum);
    }
    best as f64 / WINDOW as f64
}

/// How many requests arrived by second, added in nearly their order.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    /// Ascending, each second once, up to `settled`; behind that as they came.
    seconds: Vec<(i64, u64)>,
    settled: usize,
}

impl Arrivals {
    /// Adds `count` requests of `second`.
    #[inline]
    pub fn add(&mut self, second: i64, count: u64) {
        match self.seconds.last_mut() {
            Some(last) if last.0 == second => last.1 += count,
            _ => {
                // Memory is that of the seconds, not of the calls.
                if self.seconds.len() == self.seconds.capacity() && self.seconds.len() >= 2 * self.settled.max(64) {
                    self.settle();
                }
                self.seconds.push((second, count));
            }
        }
    }

    /// Puts what came since the last time in its place. Runs in order cost one look, as they do in any merge sort.
    fn settle(&mut self) {
        self.seconds.sort_by_key(|(second, _)| *second);
        self.seconds.dedup_by(|later, first| {
            let is_one = later.0 == first.0;
            first.1 += if is_one { later.1 } else { 0 };
            is_one
        });
        self.settled = self.seconds.len();
    }

    /// Requests a second in the busiest window.
    pub fn peak_rps(mut self) -> f64 {
        self.settle();
        peak_rps(self.seconds.iter().copied())
    }
}

/// Counts requests by row and second of arrival, and knows the busiest window of each row.
#[derive(Debug, Clone)]
pub struct Peaks {
    rows: Vec<Row>,
    newest: i64,
    closed: i64,
    held: usize,
    limit: usize,
    /// Counts that came too late for a second that was closed already.
    pub late: u64,
}

#[derive(Debug, Clone, Default)]
struct Row {
    /// Seconds and their counts, ascending: first the closed ones within the window that ends with the last of them,
    /// then those that may still change.
    seconds: Vec<(i64, u32)>,
    closed: usize,
    /// The sum of the closed ones.
    sum: u64,
    best: u64,
}

impl Row {
    /// The seconds that may still change.
    fn open(&mut self) -> &mut [(i64, u32)] {
        &mut self.seconds[self.closed..]
    }

    /// Closes the seconds up to one; how many there were.
    fn close(&mut self, up_to: i64) -> usize {
        let done = self.open().partition_point(|&(second, _)| second <= up_to);
        let mut first = 0;
        for at in self.closed..self.closed + done {
            let (second, count) = self.seconds[at];
            while self.seconds[first].0 <= second - WINDOW {
                self.sum -= u64::from(self.seconds[first].1);
                first += 1;
            }
            self.sum += u64::from(count);
            self.best = self.best.max(self.sum);
        }
        self.seconds.drain(..first);
        self.closed = self.closed + done - first;
        done
    }
}

impl Default for Peaks {
    fn default() -> Self {
        Self { rows: Vec::new(), newest: i64::MIN, closed: i64::MIN, held: 0, limit: MAX_HELD, late: 0 }
    }
}

impl Peaks {
    /// Adds `count` requests of `row` that arrived in `second`.
    #[inline]
    pub fn add(&mut self, row: u32, second: i64, count: u32) {
        if second <= self.closed {
            self.late += u64::from(count);
            return;
        }
        self.newest = self.newest.max(second);
        let row = row as usize;
        if self.rows.len() <= row {
            self.rows.resize_with(row + 1, Row::default);
        }
        let row = &mut self.rows[row];
        match row.open().last_mut() {
            Some(last) if last.0 == second => {
                last.1 += count;
                return;
            }
            Some(last) if last.0 > second => match row.open().binary_search_by_key(&second, |r| r.0) {
                Ok(at) => {
                    row.open()[at].1 += count;
                    return;
                }
                Err(at) => row.seconds.insert(row.closed + at, (second, count)),
            },
            _ => row.seconds.push((second, count)),
        }
        self.held += 1;
    }

    /// Ends a batch of counts, within which rows may come one after the other: closes the older seconds if there are
    /// too many.
    pub fn settle(&mut self) {
        if self.held > self.limit {
            self.make_room();
        }
    }

    /// Counts one request of `second` under another row, if that second is not closed.
    pub fn move_one(&mut self, from: u32, to: u32, second: i64) {
        if second <= self.closed {
            return;
        }
        let open = self.rows.get_mut(from as usize).map(Row::open);
        if let Some(open) = open
            && let Ok(at) = open.binary_search_by_key(&second, |r| r.0)
            && open[at].1 > 0
        {
            open[at].1 -= 1;
            self.add(to, second, 1);
        }
    }

    #[cold]
    fn make_room(&mut self) {
        for grace in [GRACE, WINDOW] {
            let up_to = self.newest - grace;
            self.held -= self.rows.iter_mut().map(|row| row.close(up_to)).sum::<usize>();
            self.closed = self.closed.max(up_to);
            if self.held < MAX_HELD / 2 {
                break;
            }
        }
        self.limit = MAX_HELD.max(self.held * 2);
    }

    /// For each row the largest number of requests that arrived in [`WINDOW`] consecutive seconds.
    pub fn finish(&mut self) -> Vec<u64> {
        for row in &mut self.rows {
            row.close(i64::MAX);
        }
        self.rows.iter().map(|row| row.best).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_ten_seconds() {
        let mut peaks = Peaks::default();
        for second in 0..100 {
            peaks.add(0, second, 1);
        }
        peaks.add(0, 50, 7);
        peaks.add(1, 9, 3);
        peaks.add(1, 0, 2);
        peaks.add(1, 10, 4);
        assert_eq!(peaks.finish(), [17, 7]);
    }

    #[test]
    fn arrivals_in_any_order() {
        let (mut seconds, mut counted) = (Arrivals::default(), std::collections::BTreeMap::new());
        for n in 0..10_000_i64 {
            // Now and then far back, and before 1970.
            let second = if n % 7 == 0 { n * 7919 % 211 - 50 } else { n / 5 };
            seconds.add(second, n as u64 % 3 + 1);
            *counted.entry(second).or_default() += n as u64 % 3 + 1;
        }
        assert!(seconds.seconds.len() < 5_000, "{}", seconds.seconds.len());
        let by_hand = |from: &i64| counted.range(*from..from + WINDOW).map(|(_, count)| count).sum::<u64>();
        assert_eq!(seconds.peak_rps(), counted.keys().map(by_hand).max().unwrap() as f64 / 10.0);
        assert_eq!(Arrivals::default().peak_rps(), 0.0);
    }

    #[test]
    fn a_second_long_after_the_others_leaves_none_of_them_in_the_window() {
        let mut peaks = Peaks::default();
        (0..10).for_each(|second| peaks.add(0, second, 2));
        peaks.rows[0].close(9);
        peaks.add(0, 1_000, 3);
        peaks.rows[0].close(1_000);
        assert_eq!((peaks.rows[0].seconds.as_slice(), peaks.rows[0].closed), (&[(1_000, 3)][..], 1));
        assert_eq!(peaks.finish(), [20]);
    }

    #[test]
    fn rows_of_a_batch_come_one_after_the_other() {
        let mut peaks = Peaks { limit: 100, ..Peaks::default() };
        for batch in 0..5 {
            for row in 0..3 {
                // Longer than what is kept open behind the newest second.
                (batch * 1000..(batch + 1) * 1000).for_each(|second| peaks.add(row, second, row + 1));
            }
            peaks.settle();
        }
        assert_eq!(peaks.late, 0);
        assert_eq!(peaks.finish(), [10, 20, 30]);
    }

    #[test]
    fn what_is_closed_early_gives_the_same_peaks() {
        let mut peaks = Peaks { limit: 100, ..Peaks::default() };
        for second in 0..10_000 {
            peaks.add((second % 7) as u32, second, if second % 1000 < 10 { 5 } else { 1 });
            peaks.settle();
        }
        assert_eq!(peaks.finish()[0], 10, "two seconds of one row in the window, five each");
        assert_eq!(peaks.late, 0);
    }
}
