//! A JSON string as it stands in the input: found, but not yet unescaped.

use std::borrow::Cow;

/// Longest string kept from an input, in bytes; what is longer is cut and ends in `…`.
///
/// The apiserver itself cuts user agents at 1,024; nothing else in an event that names
/// something is longer, unless it was made to be.
pub const MAX_TEXT: usize = 1024;

/// The bytes between the quotes of a JSON string, escapes and all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JsonStr<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> JsonStr<'a> {
    /// A string whose raw bytes are `raw`; `escaped` says whether they hold a backslash.
    #[inline]
    pub fn new(raw: &'a [u8], escaped: bool) -> Self {
        Self { raw, escaped }
    }

    /// A string that holds no escapes.
    pub fn plain(text: &'a str) -> Self {
        Self { raw: text.as_bytes(), escaped: false }
    }

    /// Whether it has no characters.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The bytes as they stand in the input.
    #[inline]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Whether the raw bytes hold escapes.
    #[inline]
    pub fn is_escaped(&self) -> bool {
        self.escaped
    }

    /// Whether it reads as `text`.
    #[inline]
    pub fn is(&self, text: &str) -> bool {
        self.bytes().as_ref() == text.as_bytes()
    }

    /// Its bytes, escapes resolved: all that is needed to compare it, and sooner there than [`Self::decode`].
    #[inline]
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        if self.escaped { Cow::Owned(unescape(self.raw).into_bytes()) } else { Cow::Borrowed(self.raw) }
    }

    /// The string itself: escapes resolved, bytes that are not UTF-8 replaced by U+FFFD.
    pub fn decode(&self) -> Cow<'a, str> {
        if self.escaped {
            return Cow::Owned(unescape(self.raw));
        }
        // Checked at once where it is fine, which it nearly always is.
        std::str::from_utf8(self.raw).map_or_else(|_| String::from_utf8_lossy(self.raw), Cow::Borrowed)
    }
}

/// The string that `raw` JSON is.
pub fn text_of(raw: &[u8]) -> Option<JsonStr<'_>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(JsonStr::new(inner, inner.contains(&b'\\')))
}

/// Resolves the escapes of a JSON string. Lone surrogates and unknown escapes become U+FFFD.
pub fn unescape(raw: &[u8]) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(step) = memchr::memchr(b'\\', &raw[at..]) {
        out.extend_from_slice(&raw[at..at + step]);
        at += step + 1;
        let Some(&kind) = raw.get(at) else { break };
        at += 1;
        let simple = match kind {
            b'"' | b'\\' | b'/' => kind as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (character, used) = unicode_escape(&raw[at..]);
                at += used;
                character
            }
            _ => '\u{fffd}',
        };
        out.extend_from_slice(simple.encode_utf8(&mut [0; 4]).as_bytes());
    }
    out.extend_from_slice(&raw[at.min(raw.len())..]);
    match String::from_utf8(out) {
        Ok(text) => text,
        Err(bad) => String::from_utf8_lossy(bad.as_bytes()).into_owned(),
    }
}

/// The character after `\u`, and how many bytes it took.
fn unicode_escape(raw: &[u8]) -> (char, usize) {
    let four = |at: usize| {
        let digits = std::str::from_utf8(raw.get(at..at + 4)?).ok()?;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    match four(0) {
        None => ('\u{fffd}', 0),
        Some(high @ 0xd800..0xdc00) => match (raw.get(4..6), four(6)) {
            (Some(b"\\u"), Some(low @ 0xdc00..0xe000)) => {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                (char::from_u32(code).unwrap_or('\u{fffd}'), 10)
            }
            _ => ('\u{fffd}', 4),
        },
        Some(code) => (char::from_u32(code).unwrap_or('\u{fffd}'), 4),
    }
}

/// Cuts `text` at [`MAX_TEXT`] bytes, at a character.
pub fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_TEXT {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}…", &text[..text.floor_char_boundary(MAX_TEXT)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unescapes_as_serde_json_does(text in ".{0,40}") {
            let json = serde_json::to_string(&text).unwrap();
            let raw = &json.as_bytes()[1..json.len() - 1];
            prop_assert_eq!(unescape(raw), text.clone());
            let ascii: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            prop_assert_eq!(unescape(ascii.as_bytes()), text);
        }

        #[test]
        fn any_bytes_are_survived(raw in prop::collection::vec(any::<u8>(), 0..40)) {
            unescape(&raw);
        }
    }

    #[test]
    fn long_strings_are_cut_at_a_character() {
        let text = "é".repeat(600);
        let short = cut(&text);
        assert!(short.ends_with('…') && short.len() <= MAX_TEXT + 3);
        assert_eq!(cut("abc"), "abc");
    }
}
