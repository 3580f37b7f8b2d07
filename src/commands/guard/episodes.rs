//! `plimsoll guard episodes`: list episodes, or report them live.

use super::mail::{Mail, MailFlags};
use crate::analysis::incident::episode_report::{news_report, report};
use crate::analysis::incident::watch::Watching;
use crate::cli::repeat::stop_signal;
use crate::cli::{Context, Error, FailOn, TimeFlags, duration_parser};
use crate::inputs::episodes::{self, JudgedEpisodes};
use crate::model::time::Micros;
use crate::model::units::counted;
use crate::sources::clock::now;
use crate::views::Format;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often it is looked whether to stop.
const TICK: Duration = Duration::from_millis(100);

/// Arguments of `plimsoll guard episodes`.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES
  # for cron: 1 if users noticed something
  plimsoll guard episodes /var/log/kubernetes/ --since -6h --fail-on critical
  # reports those that begin, get worse, end
  plimsoll guard episodes /var/log/kubernetes/ --follow --alerts alerts.yaml

How episodes are found: docs/judge.md. All about one: plimsoll report, plimsoll compare SOURCE --episode ID.")]
pub(super) struct Args {
    /// Audit logs, metrics pages, bundles, stores; the same as for report.
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    #[command(flatten)]
    time: TimeFlags,
    /// Evaluate repeatedly as the sources grow; report outages, incidents and degraded episodes from now on.
    #[arg(long, conflicts_with_all = ["since", "until"])]
    follow: bool,
    /// Time between evaluations.
    #[arg(long, value_name = "DURATION", default_value = "30s", requires = "follow",
        value_parser = duration_parser(1, "10s, 1m"))]
    every: Duration,
    /// Evaluate this much of the past; more gives a better baseline, and is read in full each time.
    #[arg(long, value_name = "DURATION", default_value = "30m", requires = "follow",
        value_parser = duration_parser(60, "30m, 2h"))]
    last: Duration,
    /// Stop after this duration [default: run until SIGINT or SIGTERM].
    #[arg(long = "for", value_name = "DURATION", requires = "follow",
        value_parser = duration_parser(0, "30s, 5m, 12h"))]
    length: Option<Duration>,
    #[command(flatten)]
    mail: MailFlags,
}

/// Runs the command.
pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    if args.sources.iter().any(|source| source == "-") {
        return Err(Error::Usage(
            "-: finding episodes reads the input twice, and a pipe can be read once; write it to \
             a file"
                .to_owned(),
        ));
    }
    context.report_losses_once();
    if args.follow {
        return follow(args, context);
    }
    let within = args.time.resolve(context.io.now).map_err(Error::Usage)?;
    let mut judged = episodes::episodes(&args.sources, within, context)?;
    judged.losses.iter().try_for_each(|loss| context.lost(loss))?;
    if !judged.is_judged && judged.episodes.is_empty() {
        // Not that all is well.
        context.lost(format!("{}: fewer than a minute of requests in this time to judge", args.sources.join(" ")))?;
    }
    judged.episodes.sort_by_key(|own| own.from);
    context.print(&report(&judged.episodes, judged.window, judged.is_judged, judged.notes), FailOn::Never)
}

fn follow(args: &Args, context: &mut Context<'_>) -> Result<(), Error> {
    let mut mail = Mail::open(&args.mail)?;
    let stop = stop_signal()?;
    let began = Instant::now();
    let end = args.length.map(|length| began + length);
    let is_over = || stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
    let mut watching = Watching::new(now());
    mail.iter().flat_map(Mail::reported).for_each(|key| watching.restore(key));
    let last = Micros::try_from(args.last.as_micros()).unwrap_or(Micros::MAX);
    let (mut rounds, mut reported) = (0, 0);
    loop {
        let next = Instant::now() + args.every;
        let judged = episodes::episodes(&args.sources, (Some(now() - last), None), context);
        let JudgedEpisodes { mut episodes, clusters, notes, .. } = match judged {
            Ok(judged) => judged,
            // What can't be read at first never could; later a log may just be rotated.
            Err(error) if rounds == 0 => return Err(error),
            Err(error) => {
                context.warn(format!("{error}; retrying"))?;
                JudgedEpisodes::default()
            }
        };
        if rounds == 0 {
            notes.iter().try_for_each(|note| context.notice(note))?;
        }
        rounds += 1;
        episodes.sort_by_key(|own| own.from);
        let news = watching.news(&episodes);
        reported += news.len() as u64;
        if !news.is_empty() {
            context.print(&news_report(&news), FailOn::Never)?;
            context.settings.style.headers &= !matches!(context.settings.format, Format::Csv);
        }
        if let Some(mail) = &mut mail {
            mail.report_episodes(news, &clusters.join(", "), context)?;
        }
        while !is_over() && Instant::now() < next {
            std::thread::sleep(TICK);
        }
        if is_over() {
            break;
        }
    }
    if let Some(mail) = &mut mail {
        mail.end(context)?;
    }
    context.notice(format!("judged {}, reported {}", counted(rounds, "time"), counted(reported, "change")))
}
