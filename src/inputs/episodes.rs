//! The episodes of sources, for commands that ask for nothing else of them.

use super::load::{Load, stated, stretches};
use crate::analysis::incident::answers::Answers;
use crate::cli::{Context, Error};
use crate::model::bundle::Bundle;
use crate::model::episode::Episode;
use crate::model::time::{Bounds, Span, together};
use crate::sources::find;
use crate::sources::found::Remembering;
use crate::sources::wanted::Wanted;

/// What sources were judged to hold.
#[derive(Debug, Default)]
pub(crate) struct JudgedEpisodes {
    /// The heaviest first.
    pub(crate) episodes: Vec<Episode>,
    /// The clusters that they are of.
    pub(crate) clusters: Vec<String>,
    /// The time that was judged.
    pub(crate) window: Option<Span>,
    /// Whether there was enough to judge: of nothing it can't be said that nothing happened.
    pub(crate) is_judged: bool,
    /// What must be known of those that are of several clusters.
    pub(crate) notes: Vec<String>,
    /// What of the sources is missing, beside what is reported while they are read.
    pub(crate) losses: Vec<String>,
}

/// The episodes of sources within these bounds.
pub(crate) fn episodes(sources: &[String], within: Bounds, context: &mut Context<'_>) -> Result<JudgedEpisodes, Error> {
    let _remembering = Remembering::begin();
    let mut all = JudgedEpisodes { is_judged: true, ..JudgedEpisodes::default() };
    for own in apart(&find::bundles_of(sources), context) {
        let JudgedEpisodes { episodes, clusters, window, is_judged, notes, losses } =
            episodes_of_one(&own, within, context)?;
        all.window = together(all.window, window);
        all.episodes.extend(episodes);
        all.clusters.extend(clusters);
        all.is_judged &= is_judged;
        all.notes.extend(notes);
        all.losses.extend(losses);
    }
    all.clusters.sort();
    all.clusters.dedup();
    Ok(all)
}

/// Sources that are judged together. Where all are bundles, those of other clusters are apart: what belongs to none may
/// belong to any. So are those of other times, of which one after the other takes less memory than all at once.
fn apart(sources: &[String], context: &Context<'_>) -> Vec<Vec<String>> {
    let bundle = |source: &String| find::find(std::slice::from_ref(source), Wanted::Both, context.io.now).bundle;
    let bundles: Option<Vec<Bundle>> = if sources.len() > 1 { sources.iter().map(bundle).collect() } else { None };
    let Some(bundles) = bundles else { return vec![sources.to_vec()] };
    let stretch = |own: &Bundle| {
        let alike = bundles.iter().filter(|other| other.cluster == own.cluster);
        let times = alike.map(stated).collect::<Option<Vec<Span>>>()?;
        let (from, _) = stated(own)?;
        stretches(times).into_iter().find(|stretch| (stretch.0..=stretch.1).contains(&from))
    };
    let keys: Vec<(&str, Option<Span>)> = bundles.iter().map(|own| (own.cluster.as_str(), stretch(own))).collect();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, key) in keys.iter().enumerate() {
        match groups.iter_mut().find(|group| keys[group[0]] == *key) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    groups.into_iter().map(|group| group.into_iter().map(|place| sources[place].clone()).collect()).collect()
}

/// Those of sources that are judged together.
fn episodes_of_one(sources: &[String], within: Bounds, context: &mut Context<'_>) -> Result<JudgedEpisodes, Error> {
    let (mut load, found) = Load::look(sources, within, context)?;
    let losses = found.errors.iter().filter(|error| error.is_loss()).map(ToString::to_string).collect();
    load.pages(found, context)?;
    load.rollups = load.rolled(context)?;
    // Memory within the bounds; the load for charts is not asked for.
    load.course(None);
    let logs = load.rollups.iter().filter_map(|rollup| rollup.span);
    let window = logs.fold(load.span, |all, own| together(all, Some(own)));
    let mut episodes = load.judge(None, &Answers::default(), &sources.join(" "));
    let heaviest = load.heaviest.map(|place| episodes.remove(place));
    episodes.sort_by_key(|own| own.grade);
    Ok(JudgedEpisodes {
        window,
        episodes: heaviest.into_iter().chain(episodes).collect(),
        is_judged: !load.is_short,
        notes: load.several_clusters().into_iter().collect(),
        losses,
        clusters: load.clusters,
    })
}
