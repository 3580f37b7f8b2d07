//! Draws a state. Nothing is found out here, and nothing changes.

use super::overview;
use super::popup::{ANALYSING, Look, Popup};
use super::scene::{MIN_SIZE, Scene};
use super::sheet::Body;
use super::state::{Standing, State};
use super::{Tab, timeline};
use crate::model::report::Severity;
use crate::model::series::DAY;
use crate::model::time::{self, clock};
use crate::model::units::{counted, duration};
use crate::views::chart;
use crate::views::text::{fit, fit_end, plain, wrapped};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// Lines that a command's own words may take above its rows.
const LEAD: usize = 3;

/// Draws all of it.
pub fn draw(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    paint(state, area, frame.buffer_mut());
    if let Some(prompt) = &state.prompt {
        let x = (prompt.asks.sign().width() + prompt.text.width()).min(usize::from(area.width.saturating_sub(1)));
        frame.set_cursor_position((x as u16, area.bottom().saturating_sub(1)));
    }
}

/// The same into a buffer.
pub fn paint(state: &State, area: Rect, buffer: &mut Buffer) {
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        buffer.set_stringn(
            area.x,
            area.y,
            format!("at least {} by {} is required", MIN_SIZE.0, MIN_SIZE.1),
            usize::from(area.width),
            state.theme.text,
        );
        return;
    }
    let scene = Scene::of((area.width, area.height), state.has_time());
    head(state, scene.head, buffer);
    tabs(state, scene.tabs, buffer);
    match state.tab {
        Tab::Overview if state.pane().place() == 0 => overview::draw(state, scene.body, buffer),
        Tab::Log => log(state, scene.body, buffer),
        _ => body(state, &scene, buffer),
    }
    if state.has_time() {
        timeline::draw(state, scene.timeline, buffer);
    }
    foot(state, scene.foot, buffer);
    if let Some(shown) = &state.popup {
        popup(state, shown, scene.body, buffer);
    }
}

fn head(state: &State, area: Rect, buffer: &mut Buffer) {
    let theme = &state.theme;
    let mut x = area.x;
    let mut put = |text: &str, style| {
        let room = usize::from(area.right().saturating_sub(x));
        x = buffer.set_stringn(x, area.y, text, room, style).0;
    };
    put(" plimsoll ", theme.title);
    let window = state.clock.window().filter(|_| state.has_time()).map(|(from, to)| (from, to, state.clock.is_all()));
    let mode = match (state.is_live, state.clock.is_playing) {
        _ if state.tab == Tab::Fleet => counted(state.clusters.len() as u64, "cluster"),
        (true, true) => "live".to_owned(),
        (true, false) => "live, looking back".to_owned(),
        (false, true) => format!("playing ×{}", state.clock.speed()),
        (false, false) => "replay".to_owned(),
    };
    let is_days = state.clock.span.is_some_and(|(from, to)| from.div_euclid(DAY) != to.div_euclid(DAY));
    let when = match window {
        Some((from, to, is_all)) => {
            let last = if is_all { ", all of it".to_owned() } else { format!(" ({})", duration(to - from)) };
            let span = match (is_days, area.width < 100) {
                (true, true) => format!("{} to {}", short(from), short(to)),
                (true, false) => format!("{} to {}", when(from), when(to)),
                (false, false) if is_all => format!("{} to {}", when(from), clock(to)),
                (false, _) => format!("{} to {}", clock(from), clock(to)),
            };
            format!("{span} UTC{last}")
        }
        None => String::new(),
    };
    let failing = state.sources.values().filter(|standing| standing.failure(0).is_some()).count();
    let sources = match (state.sources.len(), failing) {
        (0, _) => String::new(),
        (1, 0) => "1 source answers".to_owned(),
        (all, 0) => format!("{all} sources answer"),
        (all, failing) => format!("{failing} of {all} sources fail"),
    };
    let busy = state.pane().asked.is_some() || !state.asked.is_empty();
    let fixed = mode.width() + when.width() + sources.width() + 20 + if busy { 10 } else { 0 };
    let name = if state.tab == Tab::Fleet { "fleet" } else { &state.name };
    let name = fit(&plain(name), usize::from(area.width).saturating_sub(fixed).max(8)).into_owned();
    put(&name, theme.heading);
    put(&format!("  {mode}"), theme.text);
    put(&format!("  {when}"), theme.text);
    if !sources.is_empty() {
        put(&format!("  {sources}"), if failing > 0 { theme.of(Severity::Critical) } else { theme.good });
    }
    if busy {
        put(&format!("  {ANALYSING}"), theme.dim);
    }
}

/// A moment of a narrow screen, with its day: `11-20 09:17`.
fn short(at: time::Micros) -> String {
    when(at).chars().skip("2026-".len()).take("11-20 09:17".len()).collect()
}

/// A moment with its day.
fn when(at: time::Micros) -> String {
    time::format(at - at.rem_euclid(time::SECOND)).replace('T', " ").trim_end_matches('Z').to_owned()
}

fn tabs(state: &State, area: Rect, buffer: &mut Buffer) {
    for (tab, text, x) in Scene::names(&state.tabs(), area.width) {
        let style = if tab == state.tab { state.theme.selected } else { state.theme.text };
        buffer.set_stringn(area.x + x, area.y, text, usize::from(area.width.saturating_sub(x)), style);
    }
}

/// Lines above the parts of the tab in view.
fn lead(state: &State) -> Vec<String> {
    let width = usize::from(state.size.0);
    let mut all = Vec::new();
    if state.tab == Tab::Traffic {
        let filters = if state.pivot.filters.is_empty() {
            String::new()
        } else {
            format!(" where {}", state.pivot.filters.join(" and "))
        };
        all.push(format!("by {}{filters}", state.pivot.by.join(", ")));
    }
    if let Some(answer) = &state.pane().answer {
        all.extend(answer.errors.iter().cloned());
        all.extend(answer.lead.iter().map(|line| line.replace('\t', "  ")));
    }
    let mut lines: Vec<String> = all.iter().flat_map(|line| wrapped(line, width)).collect();
    if lines.len() > LEAD {
        lines.truncate(LEAD);
        if let Some(last) = lines.last_mut() {
            *last = fit_end(&format!("{last} …"), width);
        }
    }
    lines
}

/// How many there are.
pub(super) fn lead_lines(state: &State) -> u16 {
    lead(state).len() as u16
}

fn body(state: &State, scene: &Scene, buffer: &mut Buffer) {
    let theme = &state.theme;
    let lines = lead(state);
    let (top, names, area) = scene.part(lines.len() as u16);
    let width = usize::from(top.width);
    for (y, line) in (top.y..top.bottom()).zip(&lines) {
        buffer.set_stringn(top.x, y, line, width, theme.text);
    }
    let pane = state.pane();
    let Some(answer) = &pane.answer else {
        let text = match state.wants(state.tab) {
            Err(missing) => missing,
            Ok(_) => ANALYSING,
        };
        for (y, line) in (names.y..area.bottom()).zip(wrapped(text, width)) {
            buffer.set_stringn(names.x, y, line, width, theme.dim);
        }
        return;
    };
    let mut x = names.x;
    for (at, part) in answer.parts.iter().enumerate() {
        let style = if at == pane.place() { theme.title } else { theme.dim };
        let text = if at == pane.place() { part.title() } else { part.name().to_owned() };
        let text = format!("{}{}", if at == 0 { "" } else { " │ " }, fit(&plain(&text), 60));
        x = buffer.set_stringn(x, names.y, text, usize::from(names.right().saturating_sub(x)), style).0;
    }
    match pane.part().map(|part| &part.body) {
        Some(Body::Grid(grid)) if state.tab == Tab::Memory => {
            let (rows, below) = overview::with_memory(state, area);
            overview::draw_memory(state, below, buffer);
            grid.draw(theme, rows, buffer);
        }
        Some(Body::Grid(grid)) => grid.draw(theme, area, buffer),
        Some(Body::Icicle(icicle)) => icicle.draw(theme, area, buffer),
        Some(Body::Pictures(pictures)) => {
            let Some(picture) = pictures.get(pane.scroll) else { return };
            let text = chart::lines(picture, usize::from(area.width));
            for (y, line) in (area.y..area.bottom()).zip(text) {
                buffer.set_stringn(area.x, y, line, width, theme.text);
            }
        }
        Some(Body::Notes(notes)) => {
            let lines = notes.iter().skip(pane.scroll).flat_map(|note| wrapped(note, width));
            for (y, line) in (area.y..area.bottom()).zip(lines) {
                buffer.set_stringn(area.x, y, line, width, theme.text);
            }
        }
        Some(Body::Load) => {}
        None => {
            let text = if answer.errors.is_empty() { "Nothing." } else { "See above; the Log tab lists all failures." };
            buffer.set_stringn(area.x, area.y, text, width, theme.dim);
        }
    }
}

fn log(state: &State, area: Rect, buffer: &mut Buffer) {
    let theme = &state.theme;
    let width = usize::from(area.width);
    let mut y = area.y;
    for (name, standing) in state.sources.iter().take(usize::from(area.height / 3)) {
        let (style, text) = match (standing, standing.failure(state.now)) {
            (_, Some(failure)) => (theme.of(Severity::Critical), format!("{name}: {failure}")),
            (Standing::Well(at), None) => (theme.good, format!("{name}: answers, last at {}", clock(*at))),
            _ => continue,
        };
        buffer.set_stringn(area.x, y, fit_end(&plain(&text), width), width, style);
        y += 1;
    }
    let rest = usize::from(area.bottom() - y);
    let mut lines = Vec::new();
    for event in &state.log {
        let times = if event.times > 1 { format!(" ({} times)", event.times) } else { String::new() };
        let text = format!("{} {}{times}", clock(event.at), event.what);
        lines.extend(wrapped(&text, width).into_iter().map(|line| (event.severity, line)));
    }
    if lines.is_empty() {
        buffer.set_stringn(area.x, y, "No messages so far.", width, theme.dim);
    }
    let end = lines.len().saturating_sub(state.log_scroll).max(rest.min(lines.len()));
    for (y, (severity, line)) in (y..area.bottom()).zip(&lines[end.saturating_sub(rest)..end]) {
        buffer.set_stringn(area.x, y, line, width, theme.of(*severity));
    }
}

fn foot(state: &State, area: Rect, buffer: &mut Buffer) {
    let theme = &state.theme;
    let width = usize::from(area.width);
    if let Some(prompt) = &state.prompt {
        let (sign, typed) = (prompt.asks.sign(), plain(&prompt.text));
        if prompt.is_default && sign.width() + typed.width() < width {
            let (x, _) = buffer.set_stringn(area.x, area.y, sign, width, theme.heading);
            buffer.set_stringn(x, area.y, &typed, width - sign.width(), theme.selected);
            return;
        }
        let text = format!("{sign}{typed}");
        // The end is what one types at.
        let mut cut = text.as_str();
        while cut.width() >= width.max(1) {
            cut = cut.char_indices().nth(1).map_or("", |(at, _)| &cut[at..]);
        }
        buffer.set_stringn(area.x, area.y, cut, width, theme.heading);
        return;
    }
    if let Some((_, message)) = &state.message {
        buffer.set_stringn(area.x, area.y, fit_end(&plain(message), width), width, theme.heading);
        return;
    }
    let hints = match state.tab {
        Tab::Overview => "? help  Enter what to do  v more  space play  , . step  < > events  q quit",
        Tab::Traffic => "? help  Enter look into  Esc back  b by  / filter  s sort  e export  q quit",
        Tab::Heap => "? help  arrows walk  Enter zoom  Esc out  v tables  e export  q quit",
        Tab::Keyspace => "? help  arrows walk  Enter zoom  Esc out  v tables  s by  d compare  e export  q quit",
        Tab::Log => "? help  arrows scroll  q quit",
        Tab::Fleet => "? help  Enter open the cluster  v more  / filter  s sort  e export  q quit",
        _ => "? help  Enter details  v more  / filter  s sort  y copy  e export  q quit",
    };
    buffer.set_stringn(area.x, area.y, hints, width, theme.dim);
}

fn popup(state: &State, popup: &Popup, area: Rect, buffer: &mut Buffer) {
    let theme = &state.theme;
    let (place, inner) = popup.place(area);
    let width = place.width;
    let all = popup.laid(inner);
    let room = usize::from(place.height.saturating_sub(2));
    let scroll = popup.scroll.min(all.len().saturating_sub(room));
    let is_below = scroll + room < all.len();
    let lines = all.into_iter().skip(scroll);
    let blank = " ".repeat(usize::from(width));
    for y in place.y..place.bottom() {
        buffer.set_stringn(place.x, y, &blank, usize::from(width), theme.text);
        buffer.set_style(Rect { y, height: 1, ..place }, ratatui::style::Style::reset());
    }
    let edge = |left: &str, right: &str, title: &str| {
        let title = if title.is_empty() {
            String::new()
        } else {
            format!(" {} ", fit(&plain(title), usize::from(width).saturating_sub(6)))
        };
        format!("{left}─{title}{}{right}", "─".repeat(usize::from(width).saturating_sub(3 + title.width())))
    };
    buffer.set_stringn(place.x, place.y, edge("┌", "┐", &popup.title), usize::from(width), theme.title);
    let below = match (scroll > 0, is_below) {
        (true, true) => "more above and below",
        (true, false) => "more above",
        (false, true) => "more below",
        (false, false) => "",
    };
    buffer.set_stringn(place.x, place.bottom() - 1, edge("└", "┘", below), usize::from(width), theme.title);
    for (y, (look, line)) in (place.y + 1..place.bottom() - 1).zip(lines) {
        let style = match look {
            Look::Heading => theme.heading,
            Look::Text => theme.text,
            Look::Dim => theme.dim,
            Look::Of(severity) => theme.of(severity),
        };
        buffer.set_stringn(place.x + 2, y, line, inner, style);
    }
    for y in place.y + 1..place.bottom() - 1 {
        buffer.set_stringn(place.x, y, "│", 1, theme.title);
        buffer.set_stringn(place.right() - 1, y, "│", 1, theme.title);
    }
}
