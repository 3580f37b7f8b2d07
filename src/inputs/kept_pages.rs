//! Pages as they were read, by what changed from one to the next: whoever asks for some of them again reads no file.

use crate::analysis::metrics::{Fold, PageValues, SeriesTable};
use crate::model::time::Micros;

/// A page: its path, and when it was taken as its name or file says.
pub(super) type Page = (String, Micros);

/// The pages of one folder, in the order in which they were read.
#[derive(Debug, Default)]
pub(super) struct KeptPages {
    pages: Vec<KeptPage>,
    /// By series: its value on the last page, NaN where that lacks it.
    last: Vec<f64>,
    /// How many series the last page has.
    present: usize,
    bytes: usize,
    /// Whether there was more than may be kept; then there is nothing.
    is_full: bool,
}

#[derive(Debug)]
struct KeptPage {
    page: Page,
    /// When it was taken, as its samples say where nothing else does.
    at: Micros,
    dropped: u64,
    /// Series with other values than on the page before, and these; NaN where they are no more.
    changed: Vec<u32>,
    values: Vec<f64>,
}

impl KeptPages {
    /// Keeps the page that `table` has read, unless that takes more than `most` bytes in all.
    pub(super) fn keep(&mut self, page: Page, at: Micros, table: &SeriesTable, most: usize) {
        if self.is_full {
            return;
        }
        let read = table.page();
        self.last.resize(table.len(), f64::NAN);
        let (mut changed, mut values) = (Vec::new(), Vec::new());
        for &(series, value) in read.values() {
            let last = &mut self.last[series as usize];
            if last.to_bits() != value.to_bits() {
                self.present += usize::from(last.is_nan());
                *last = value;
                changed.push(series);
                values.push(value);
            }
        }
        if self.present > read.values().len() {
            for (last, series) in self.last.iter_mut().zip(0..).filter(|(last, _)| !last.is_nan()) {
                if !table.is_on_page(series) {
                    *last = f64::NAN;
                    changed.push(series);
                    values.push(f64::NAN);
                }
            }
            self.present = read.values().len();
        }
        self.bytes += changed.len() * (size_of::<u32>() + size_of::<f64>()) + page.0.len() + size_of::<KeptPage>();
        if self.bytes > most {
            *self = Self { is_full: true, ..Self::default() };
            return;
        }
        changed.shrink_to_fit();
        values.shrink_to_fit();
        self.pages.push(KeptPage { page, at, dropped: read.dropped(), changed, values });
    }

    /// Forgets what only further pages need.
    pub(super) fn close(&mut self) {
        (self.last, self.present) = (Vec::new(), 0);
    }

    /// The pages that are kept.
    pub(super) fn pages(&self) -> impl Iterator<Item = &Page> {
        self.pages.iter().map(|kept| &kept.page)
    }

    /// Gives each page to those of `folds` that `takes` says it is for.
    pub(super) fn replay(&self, table: &SeriesTable, folds: &mut [Fold], takes: impl Fn(usize, &Page) -> bool) {
        let mut state = vec![f64::NAN; table.len()];
        for kept in &self.pages {
            for (series, value) in kept.changed.iter().zip(&kept.values) {
                state[*series as usize] = *value;
            }
            let takers: Vec<usize> = (0..folds.len()).filter(|fold| takes(*fold, &kept.page)).collect();
            if takers.is_empty() {
                continue;
            }
            let values = state.iter().zip(0..).filter(|(value, _)| !value.is_nan());
            let page = PageValues::new(values.map(|(value, series)| (series, *value)).collect(), kept.dropped);
            takers.into_iter().for_each(|fold| folds[fold].page(&page, table, kept.at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::metrics::Retention;
    use crate::analysis::metrics::facts::{Facts, Folded};
    use crate::sources::exposition;

    const PAGES: [&str; 4] = [
        "process_start_time_seconds 100\netcd_server_has_leader 1\netcd_disk_wal_fsync_duration_seconds_sum 1\n",
        "process_start_time_seconds 100\netcd_server_has_leader 0\netcd_disk_wal_fsync_duration_seconds_sum 3\n",
        "process_start_time_seconds 100\netcd_disk_wal_fsync_duration_seconds_sum 3\n",
        "process_start_time_seconds 900\netcd_server_has_leader 1\netcd_disk_wal_fsync_duration_seconds_sum 0.5\n",
    ];

    fn page(number: usize) -> Page {
        (format!("{number}.txt"), number as Micros * 300_000_000)
    }

    /// Folds of the pages from `from` on as they are read, and what was kept of all pages.
    fn read(from: usize, most: usize) -> (SeriesTable, Fold, KeptPages) {
        let (mut table, mut fold) = (SeriesTable::default(), Fold::new(Retention::Incident));
        let mut kept = KeptPages::default();
        for (number, text) in PAGES.iter().enumerate() {
            table.begin();
            exposition::read(text.as_bytes(), |sample| table.sample(sample), |_| {});
            let (name, at) = page(number);
            if number >= from {
                fold.page(table.page(), &table, at);
            }
            kept.keep((name, at), at, &table, most);
        }
        kept.close();
        (table, fold, kept)
    }

    fn facts(table: &SeriesTable, fold: &Fold) -> String {
        format!("{:?}", Facts::new(&[Folded { cluster: "", name: "etcd-0", table, fold }]))
    }

    #[test]
    fn pages_that_were_kept_say_what_they_said() {
        for from in 0..PAGES.len() {
            let (table, fold, kept) = read(from, 1 << 20);
            let wanted: Vec<Page> = (from..PAGES.len()).map(page).collect();
            let mut folds = [Fold::new(Retention::Incident)];
            kept.replay(&table, &mut folds, |_, page| wanted.contains(page));
            assert_eq!(facts(&table, &folds[0]), facts(&table, &fold), "from page {from}");
            assert!(facts(&table, &fold).contains("restarts"));
        }
        assert_ne!(facts(&read(0, 0).0, &read(0, 0).1), facts(&read(1, 0).0, &read(1, 0).1));
    }

    #[test]
    fn beyond_the_limit_nothing_is_kept() {
        assert_eq!(read(0, 300).2.pages().count(), 0);
        assert_eq!(read(0, 1 << 20).2.pages().cloned().collect::<Vec<Page>>(), (0..4).map(page).collect::<Vec<Page>>());
    }
}
