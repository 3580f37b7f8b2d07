//! A store that is written to and kept in order.

use crate::actions::store::{Keep, KeepRollups, Sample, Writer, drop_old, open_or_make, put_together, seal};
use crate::cli::{Context, Error, length_parser, parse_length};
use crate::inputs::recording::{self, failed};
use crate::model::series::{DAY, Series};
use crate::model::time::Micros;
use crate::model::units::{bytes, counted, parse_bytes};
use crate::sources::clock;
use crate::sources::store::{Store, date};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between looks at what is over, old or too much.
const HOUSEKEEPING: Duration = Duration::from_secs(60);

/// How much is kept.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Retention")]
pub(crate) struct KeepFlags {
    /// Maximum size: the oldest points are dropped first, then the oldest days.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Keep single points for this long; of older days their peak, quantiles and mean.
    #[arg(long, value_name = "TIME", default_value = "14d",
        value_parser = length_parser(2 * DAY, "14d, 8w"))]
    keep_points: Micros,
    /// Keep days for this long.
    #[arg(long, value_name = "TIME", default_value = "400d",
        value_parser = length_parser(2 * DAY, "14d, 8w"))]
    keep: Micros,
    /// Keep roll-ups of audit logs in tiles of these lengths up to these ages: 10s, 1m, 10m and 1h.
    #[arg(long, value_name = "TILE=AGE,...", default_value = "10s=2d,1m=30d,10m=400d", value_parser = keep_rollups)]
    keep_rollups: KeepRollups,
}

fn size(text: &str) -> Result<u64, String> {
    let size = parse_bytes(text).filter(|bytes| *bytes >= 1 << 20);
    size.ok_or_else(|| "write a size of at least 1MiB: 64MiB, 2G, 500MB".to_owned())
}

fn keep_rollups(text: &str) -> Result<KeepRollups, String> {
    let tiles = [("10s", 10), ("1m", 60), ("10m", 600), ("1h", 3600)];
    let mut all: Vec<(i64, Micros)> = Vec::new();
    for pair in text.split(',').map(str::trim) {
        let (tile, to) = pair.split_once('=').ok_or("write TILE=AGE,...: 10s=2d,1m=30d,10m=400d")?;
        let known = tiles.iter().find(|(name, _)| *name == tile);
        let (_, tile) = known.ok_or_else(|| format!("{tile}: tiles are 10s, 1m, 10m or 1h long"))?;
        let to = parse_length(to, DAY / 24, "2d, 8w")?;
        if all.last().is_some_and(|(finer, before)| finer >= tile || *before >= to) {
            return Err("each tile must be longer than the one before, and kept for longer".to_owned());
        }
        all.push((*tile, to));
    }
    Ok(KeepRollups(all))
}

/// Writes what was taken, and keeps the store in order.
pub(crate) struct Recorder {
    pub(crate) store: Store,
    writer: Writer,
    keep: KeepFlags,
    looked: Option<Instant>,
    batches: u64,
    /// Whether roll-ups go to another plimsoll: then they stay as they are until they went.
    pub(crate) hands_over: bool,
}

impl Recorder {
    /// Opens the store in a folder, made if need be.
    pub(crate) fn open(folder: &Path, keep: &KeepFlags) -> Result<Self, Error> {
        let store = open_or_make(folder).map_err(failed)?;
        let writer = Writer::new(&store);
        let mut recorder = Self { writer, store, keep: keep.clone(), looked: None, batches: 0, hands_over: false };
        if let Some(limit) = keep.max_size {
            recorder.writer.limit_files(limit / 8);
        }
        Ok(recorder)
    }

    pub(crate) fn store(&mut self, samples: &[(Series, Micros, f64)], context: &mut Context<'_>) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(samples.len());
        for (series, at, value) in samples {
            match self.writer.series(series) {
                Some(series) => batch.push(Sample { series, at: *at, value: *value }),
                None => {
                    context.lost(format!("{series}: not a name of a series, or too long; its sample was left out"))?
                }
            }
        }
        let appended = self.writer.append(&batch).map_err(failed)?;
        self.batches += 1;
        if appended.refused > 0 {
            context.lost(format!(
                "{} without a finite value or a sensible time left out",
                counted(appended.refused, "sample")
            ))?;
        }
        if context.settings.verbose {
            context.notice(format!("batch {}: {} stored", self.batches, counted(appended.stored, "sample")))?;
        }
        Ok(())
    }

    /// Seals what is over and drops what is too old or too much, now and then.
    pub(crate) fn look_after(&mut self, now_at_any_rate: bool, context: &mut Context<'_>) -> Result<(), Error> {
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= HOUSEKEEPING);
        if !is_due && !now_at_any_rate {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        // Of a store that may not grow, a half is for what logs show.
        match (self.hands_over, self.keep.max_size.map(|most| most / 2)) {
            (true, None) => {}
            (true, Some(most)) => recording::limit(&self.store, most, context)?,
            (false, most) => recording::look_after(&self.store, &self.keep.keep_rollups, most, context)?,
        }
        look_after(&self.store, &mut self.writer, &self.keep, context)
    }
}

/// Seals, puts together, drops; says what was lost or dropped.
pub(crate) fn look_after(
    store: &Store,
    writer: &mut Writer,
    keep: &KeepFlags,
    context: &mut Context<'_>,
) -> Result<(), Error> {
    let now = clock::now();
    let sealed = seal(store, now, Some(writer)).map_err(failed)?;
    for loss in &sealed.losses {
        context.lost(loss)?;
    }
    let reported = if context.settings.verbose { sealed.days.as_slice() } else { &[] };
    for day in reported {
        context.notice(format!("{} sealed", date(*day)))?;
    }
    for loss in put_together(store, now).map_err(failed)? {
        context.lost(loss)?;
    }
    let dropped = drop_old(store, now, Keep { points: keep.keep_points, days: keep.keep, bytes: keep.max_size })
        .map_err(failed)?;
    let limit =
        keep.max_size.map(|limit| format!("to keep the store below {}", bytes(limit as f64))).unwrap_or_default();
    if let (Some(first), Some(last)) = (dropped.points.first(), dropped.points.last()) {
        context.notice(format!(
            "{limit} the points of {} to {} were dropped; their daily aggregates are kept",
            date(*first),
            date(*last)
        ))?;
    }
    if let (Some((first, _)), Some((_, last))) = (dropped.days.first(), dropped.days.last()) {
        context.notice(format!("{limit} the days {} to {} were dropped", date(*first), date(*last)))?;
    }
    for log in &dropped.logs {
        context.notice(format!("{limit} unsealed samples were dropped: {log}"))?;
    }
    if dropped.is_over {
        context.notice(format!(
            "the store has {}, and nothing more can be dropped: the data being written takes that much",
            bytes(dropped.bytes as f64)
        ))?;
    }
    Ok(())
}
