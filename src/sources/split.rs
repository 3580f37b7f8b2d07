//! Makes lines of JSON documents: the elements of arrays, pretty-printed objects, objects that follow
//! one another without a newline.
//!
//! A state machine over bytes that knows strings and depth. Of a top-level array, and of an array
//! behind one of the keys in [`LISTS`] of a top-level object, each element becomes a line; any other
//! top-level value becomes one line. Memory is bounded by the caller's longest line.

use std::io::{self, Read};

/// Keys behind which exports keep their list of entries.
const LISTS: [&[u8]; 3] = [b"\"events\"", b"\"records\"", b"\"items\""];

/// Values longer than this are passed on in pieces, so that the reader of lines can refuse them.
const MAX_HELD: usize = 33 << 20;

/// Reads JSON documents, gives lines.
pub struct Splitter<R> {
    inner: R,
    input: Vec<u8>,
    /// The line being made.
    held: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
    depth: u32,
    /// Depth of the objects that become lines: 0 for top-level values, 1 or 2 inside a list.
    line_depth: u32,
    in_string: bool,
    escape: bool,
    /// The text of the string that ended last at depth 1, to see whether it is a list's key.
    key: Vec<u8>,
    done: bool,
    /// Whether a list's object goes on behind its list: nothing of that is of use.
    behind_list: bool,
}

impl<R: Read> Splitter<R> {
    /// Splits what `inner` gives.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            input: vec![0; 256 << 10],
            held: Vec::new(),
            ready: Vec::new(),
            given: 0,
            depth: 0,
            line_depth: 0,
            in_string: false,
            escape: false,
            key: Vec::new(),
            done: false,
            behind_list: false,
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            if !self.behind_list {
                self.held.push(if byte == b'\n' || byte == b'\r' { b' ' } else { byte });
            }
            if self.depth == 1 && self.line_depth == 0 && self.key.len() < 16 {
                self.key.push(byte);
            }
            match (self.escape, byte) {
                (true, _) => self.escape = false,
                (false, b'\\') => self.escape = true,
                (false, b'"') => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return,
            b'"' => {
                self.in_string = true;
                self.key.clear();
                self.key.push(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                let opens_list = byte == b'['
                    && self.line_depth == 0
                    && (self.depth == 1 || (self.depth == 2 && LISTS.contains(&self.key.as_slice())));
                if opens_list {
                    self.line_depth = self.depth;
                    self.held.clear();
                    return;
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.behind_list {
                    if self.depth == 0 {
                        (self.behind_list, self.line_depth) = (false, 0);
                    }
                    return;
                }
                if self.line_depth > 0 && self.depth < self.line_depth {
                    self.end_line();
                    self.behind_list = self.depth > 0;
                    if !self.behind_list {
                        self.line_depth = 0;
                    }
                    return;
                }
            }
            b',' if self.line_depth > 0 && self.depth == self.line_depth && !self.behind_list => {
                self.end_line();
                return;
            }
            _ => {}
        }
        if self.behind_list {
            return;
        }
        self.held.push(byte);
        if self.depth == 0 && self.line_depth == 0 && matches!(byte, b'}' | b']') {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        if !self.held.is_empty() {
            self.ready.append(&mut self.held);
            self.ready.push(b'\n');
        }
    }
}

impl<R: Read> Read for Splitter<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() && !self.done {
            self.ready.clear();
            self.given = 0;
            let mut input = std::mem::take(&mut self.input);
            let count = self.inner.read(&mut input);
            if let Ok(count) = count {
                input[..count].iter().for_each(|&byte| self.byte(byte));
                self.done = count == 0;
            }
            self.input = input;
            count?;
            if self.done || self.held.len() > MAX_HELD {
                self.ready.append(&mut self.held);
            }
        }
        let count = out.len().min(self.ready.len() - self.given);
        out[..count].copy_from_slice(&self.ready[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let mut out = String::new();
        Splitter::new(text.as_bytes()).read_to_string(&mut out).unwrap();
        out.lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_kind_of_document_becomes_lines() {
        assert_eq!(lines("[\n {\"a\": [1, 2]},\n {\"b\": \"x,]\\\"\"}\n]\n"), [r#"{"a":[1,2]}"#, r#"{"b":"x,]\""}"#]);
        assert_eq!(lines(r#"{"a":1}{"b":{"c":2}}"#), [r#"{"a":1}"#, r#"{"b":{"c":2}}"#]);
        assert_eq!(
            lines("{\"kind\":\"L\",\n\"items\":[{\"a\":1},{\"b\":[2]}],\"x\":{\"y\":[1]}}\n{\"c\":3}"),
            [r#"{"a":1}"#, r#"{"b":[2]}"#, r#"{"c":3}"#]
        );
        assert_eq!(lines(r#"{"events":[],"nextToken":"t"}"#), Vec::<String>::new());
        assert_eq!(
            lines(r#"{"events":[{"a":1}],"searched":[{"b":2},"x"],"t":"}"}{"c":3}"#),
            [r#"{"a":1}"#, r#"{"c":3}"#]
        );
        assert_eq!(
            lines(r#"{"logEvents":[{"message":"m"}],"owner":"1"}"#),
            [r#"{"logEvents":[{"message":"m"}],"owner":"1"}"#]
        );
    }

    #[test]
    fn a_document_that_ends_early_gives_its_last_piece() {
        assert_eq!(lines(r#"[{"a":1},{"b":"#), [r#"{"a":1}"#, r#"{"b":"#]);
    }
}
