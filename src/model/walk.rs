//! Walking over JSON text: strings, values, and a cursor that expects what it is given.
//!
//! Nothing here recurses, so nesting can't exhaust the stack.

use crate::model::json::JsonStr;

/// How a string ended, or what stands in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StringEnd {
    /// The index of the closing quote.
    pub at: usize,
    /// Whether the string holds escapes.
    pub escaped: bool,
    /// Whether it holds bytes that are not ASCII.
    pub non_ascii: bool,
}

/// The end of the string whose first character is at `from`; `None` if it does not end, or holds a
/// control character, which JSON does not allow (so a string never runs over a line's end).
#[inline]
pub fn string_end(text: &[u8], from: usize) -> Option<StringEnd> {
    let mut end = StringEnd { at: from, ..StringEnd::default() };
    loop {
        // Strings in an event are short: looking at 16 bytes in place beats a call to memchr.
        while let Some(block) = text[end.at..].first_chunk::<16>() {
            let found = remarkable(block);
            if found != 0 {
                end.at += found.trailing_zeros() as usize;
                break;
            }
            end.at += 16;
        }
        match *text.get(end.at)? {
            b'"' => return Some(end),
            b'\\' => {
                end.escaped = true;
                // What is escaped is a letter or a mark, never the line's end.
                if !matches!(text.get(end.at + 1), Some(0x20..0x80)) {
                    return None;
                }
                end.at += 2;
            }
            0x80.. => {
                end.non_ascii = true;
                end.at += 1;
            }
            0x20.. => end.at += 1,
            _ => return None,
        }
    }
}

/// A bit for each byte that is a quote, a backslash, a control character or not ASCII.
#[inline]
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "one 16-byte comparison; a tenth of the time of a pass")]
fn remarkable(block: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_cmplt_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of every x86-64, and the load is unaligned, from 16 bytes that exist.
    unsafe {
        let x = _mm_loadu_si128(block.as_ptr().cast());
        let quote = _mm_cmpeq_epi8(x, _mm_set1_epi8(b'"' as i8));
        let slash = _mm_cmpeq_epi8(x, _mm_set1_epi8(b'\\' as i8));
        // As signed bytes, what is not ASCII is negative and so below a blank too.
        let low = _mm_cmplt_epi8(x, _mm_set1_epi8(0x20));
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), low)) as u32
    }
}

/// A bit for each byte that is a quote, a backslash, a control character or not ASCII.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
fn remarkable(block: &[u8; 16]) -> u32 {
    let mut found = 0;
    for (bit, &byte) in block.iter().enumerate() {
        found |= u32::from(byte == b'"' || byte == b'\\' || !(0x20..0x80).contains(&byte)) << bit;
    }
    found
}

/// The index behind the JSON value that starts at `from`, and whether it holds bytes that are not
/// ASCII. Brackets are counted, not matched by kind: whoever needs to know that the value is
/// well-formed parses it. `None` if it does not end on its line.
pub fn skip_value(text: &[u8], from: usize) -> Option<(usize, bool)> {
    match text.get(from)? {
        b'"' => {
            let end = string_end(text, from + 1)?;
            Some((end.at + 1, end.non_ascii))
        }
        b'{' | b'[' => {
            let mut depth = 0u32;
            let mut at = from;
            let mut non_ascii = false;
            loop {
                match *text.get(at)? {
                    b'"' => {
                        let end = string_end(text, at + 1)?;
                        at = end.at;
                        non_ascii |= end.non_ascii;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some((at + 1, non_ascii));
                        }
                    }
                    b'\t' | b'\r' | 0x20..0x80 => {}
                    _ => return None,
                }
                at += 1;
            }
        }
        _ => {
            let rest = &text[from..];
            let length = rest
                .iter()
                .position(|b| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'))
                .unwrap_or(rest.len());
            (length > 0 && rest[..length].is_ascii()).then_some((from + length, false))
        }
    }
}

/// A hash of some words, good enough to find a place in a small table. Each pair is multiplied on its own, so
/// that none waits for the one before.
#[inline(always)]
pub fn quick_hash<const N: usize>(text: &[u8; N], seed: u64) -> u64 {
    let mut hash = seed;
    for pair in text.as_chunks::<16>().0 {
        let pair = u128::from_le_bytes(*pair);
        let product =
            u128::from(pair as u64 ^ 0x9e37_79b9_7f4a_7c15) * u128::from((pair >> 64) as u64 ^ 0xd6e8_feb8_6659_fd93);
        hash = hash.rotate_left(11) ^ (product as u64) ^ ((product >> 64) as u64);
    }
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// A place in a text, moved on by what is expected there.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// Whether a byte that is not ASCII was passed.
    pub non_ascii: bool,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start.
    #[inline]
    pub fn new(text: &'a [u8]) -> Self {
        Self::at(text, 0)
    }

    /// A cursor at a place.
    #[inline]
    pub fn at(text: &'a [u8], at: usize) -> Self {
        Self { text, at, non_ascii: false }
    }

    /// Where it stands.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Passes over `length` bytes that are known already; returns them.
    #[inline]
    pub fn pass(&mut self, length: usize) -> &'a [u8] {
        let from = self.at;
        self.at += length;
        &self.text[from..self.at]
    }

    /// The byte that is next.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Whether nothing is left.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.at == self.text.len()
    }

    /// Passes over `expected` if it is next.
    #[inline(always)]
    pub fn eat<const N: usize>(&mut self, expected: &[u8; N]) -> bool {
        // Of known length, so that the comparison is a few instructions and not a call.
        let there = self.text[self.at..].first_chunk::<N>() == Some(expected);
        if there {
            self.at += N;
        }
        there
    }

    /// Passes over `expected`, or fails.
    #[inline(always)]
    pub fn need<const N: usize>(&mut self, expected: &[u8; N]) -> Option<()> {
        self.eat(expected).then_some(())
    }

    /// Passes over a comma if one is next.
    #[inline]
    pub fn comma(&mut self) {
        if self.peek() == Some(b',') {
            self.at += 1;
        }
    }

    /// Passes over white space.
    pub fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Reads to the end of a string whose opening quote has been passed.
    #[inline]
    pub fn string(&mut self) -> Option<JsonStr<'a>> {
        let end = string_end(self.text, self.at)?;
        self.non_ascii |= end.non_ascii;
        let text = JsonStr::new(&self.text[self.at..end.at], end.escaped);
        self.at = end.at + 1;
        Some(text)
    }

    /// The same, quicker if the string is as long as a UUID.
    #[inline]
    pub fn uuid(&mut self) -> Option<JsonStr<'a>> {
        if let Some(block) = self.text[self.at..].first_chunk::<37>()
            && block[36] == b'"'
            && let (Some(a), Some(b), Some(c)) =
                (block.first_chunk(), block[16..].first_chunk(), block[20..].first_chunk())
            && remarkable(a) | remarkable(b) | (remarkable(c) & 0xffff) == 0
        {
            let text = JsonStr::new(&self.text[self.at..self.at + 36], false);
            self.at += 37;
            return Some(text);
        }
        self.string()
    }

    /// The same, and the string as a number, which is not 0 and distinguishes it from all others, if it has 1 to 15
    /// bytes and no escapes; else 0.
    #[inline]
    pub fn short_string(&mut self) -> Option<(JsonStr<'a>, u128)> {
        if let Some(block) = self.text[self.at..].first_chunk::<16>() {
            let length = remarkable(block).trailing_zeros() as usize;
            if (1..16).contains(&length) && block[length] == b'"' {
                let text = JsonStr::new(&self.text[self.at..self.at + length], false);
                self.at += length + 1;
                return Some((text, u128::from_le_bytes(*block) << (128 - 8 * length)));
            }
        }
        Some((self.string()?, 0))
    }

    /// The same, quicker if the string is as long as a timestamp of the encoder. The place behind it is then
    /// known before it is looked at, which lets the processor go on.
    #[inline(always)]
    pub fn timestamp(&mut self) -> Option<JsonStr<'a>> {
        if let Some(block) = self.text[self.at..].first_chunk::<28>()
            && block[27] == b'"'
            && let (Some(a), Some(b)) = (block.first_chunk(), block[11..].first_chunk())
            && remarkable(a) | remarkable(b) == 0
        {
            let text = JsonStr::new(&block[..27], false);
            self.at += 28;
            return Some(text);
        }
        self.string()
    }

    /// The same for strings that hold no escapes when the encoder writes them.
    #[inline]
    pub fn plain_string(&mut self) -> Option<&'a [u8]> {
        let text = self.string()?;
        (!text.is_escaped()).then_some(text.raw())
    }

    /// Passes over a value; returns its text.
    #[inline]
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let (end, non_ascii) = skip_value(self.text, self.at)?;
        self.non_ascii |= non_ascii;
        let value = &self.text[self.at..end];
        self.at = end;
        Some(value)
    }

    /// Reads a response code: three digits, or any number.
    #[inline]
    pub fn code(&mut self) -> Option<u16> {
        match self.text.get(self.at..self.at + 4) {
            Some(&[a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b'}']) => {
                self.at += 3;
                Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
            }
            _ => self.number(),
        }
    }

    /// Reads a whole number from 0 to 65,535.
    #[inline]
    pub fn number(&mut self) -> Option<u16> {
        let mut value = 0u32;
        let from = self.at;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value * 10 + u32::from(digit - b'0');
            self.at += 1;
            if self.at - from > 5 {
                return None;
            }
        }
        if self.at == from { None } else { u16::try_from(value).ok() }
    }
}

/// The elements of a JSON array of strings.
pub fn strings(array: &[u8]) -> impl Iterator<Item = JsonStr<'_>> {
    let mut at = Cursor::new(array);
    let mut more = at.eat(b"[");
    std::iter::from_fn(move || {
        more.then_some(())?;
        at.blanks();
        at.need(b"\"")?;
        let text = at.string()?;
        at.blanks();
        more = at.eat(b",");
        Some(text)
    })
}

/// The raw value of the member `key` of a JSON object.
pub fn member<'a>(object: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let mut at = Cursor::new(object);
    at.blanks();
    at.need(b"{")?;
    loop {
        at.blanks();
        at.need(b"\"")?;
        let name = at.string()?;
        at.blanks();
        at.need(b":")?;
        at.blanks();
        let value = at.value()?;
        if name.is(key) {
            return Some(value);
        }
        at.blanks();
        at.need(b",")?;
    }
}

/// How many elements the `items` of a list have.
pub fn items(body: &[u8]) -> u64 {
    let Some(items) = member(body, "items").filter(|items| items.starts_with(b"[")) else { return 0 };
    let mut at = Cursor::new(&items[1..]);
    let mut count = 0;
    loop {
        at.blanks();
        if at.peek() == Some(b']') || at.value().is_none() {
            return count;
        }
        count += 1;
        at.blanks();
        at.comma();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_end_where_serde_says(text in ".{0,60}", behind in ".{0,20}") {
            let json = serde_json::to_string(&text).unwrap();
            let all = format!("{json}{behind}");
            let end = string_end(all.as_bytes(), 1).unwrap();
            prop_assert_eq!(end.at, json.len() - 1);
            prop_assert_eq!(end.escaped, json.contains('\\'));
            prop_assert_eq!(end.non_ascii, !json.is_ascii());
        }

        #[test]
        fn any_bytes_are_survived(text in prop::collection::vec(any::<u8>(), 0..80)) {
            string_end(&text, 0);
            skip_value(&text, 0);
        }
    }

    #[test]
    fn values_are_passed_over_whole() {
        for value in [r#""a\"}""#, "{}", r#"{"a":[1,{"b":"]}"}]}"#, "[[],{}]", "null", "-1.5e3", "true"] {
            for behind in ["", ",", "}", "]"] {
                let text = format!("{value}{behind}");
                assert_eq!(skip_value(text.as_bytes(), 0), Some((value.len(), false)), "{text}");
            }
        }
        for broken in ["", "{", r#""abc"#, r#"{"a":"b"#, ",", "\"a\nb\"", "{\u{0}}"] {
            assert_eq!(skip_value(broken.as_bytes(), 0), None, "{broken}");
        }
    }
}
