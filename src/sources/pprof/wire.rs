//! Protobuf as it lies in the file: fields one after the other, each with its number. No more of it than profiles need.

use super::Fault;

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field<'b> {
    Number(u64),
    /// Bytes: text, a message, or packed numbers.
    Bytes(Message<'b>),
    /// A number of fixed length; no field of a profile is one.
    Fixed,
}

/// The bytes of a message, and where in the file they begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) offset: usize,
}

/// Goes through a message.
#[derive(Debug)]
pub(super) struct Walk<'b> {
    message: Message<'b>,
    at: usize,
}

impl<'b> Walk<'b> {
    pub(super) fn new(message: Message<'b>) -> Self {
        Self { message, at: 0 }
    }

    /// Where in the file the next field begins.
    pub(super) fn offset(&self) -> usize {
        self.message.offset + self.at
    }

    pub(super) fn is_over(&self) -> bool {
        self.at >= self.message.bytes.len()
    }

    #[cold]
    fn fault(&self, what: &str) -> Fault {
        Fault::at_byte(self.offset(), what)
    }

    /// The next number.
    #[inline(always)]
    pub(super) fn number(&mut self) -> Result<u64, Fault> {
        // Most are short: numbers of fields, lengths, locations.
        let (value, length) = match &self.message.bytes[self.at..] {
            [a, ..] if *a < 0x80 => (u64::from(*a), 1),
            [a, b, ..] if *b < 0x80 => (u64::from(a & 0x7f) | u64::from(*b) << 7, 2),
            [a, b, c, ..] if *c < 0x80 => (u64::from(a & 0x7f) | u64::from(b & 0x7f) << 7 | u64::from(*c) << 14, 3),
            _ => return self.long_number(),
        };
        self.at += length;
        Ok(value)
    }

    #[cold]
    fn long_number(&mut self) -> Result<u64, Fault> {
        let bytes = &self.message.bytes[self.at..];
        let mut value = 0u64;
        for (index, byte) in bytes.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                if index == 9 && *byte > 1 {
                    return Err(self.fault("holds a number of more than 64 bits"));
                }
                self.at += index + 1;
                return Ok(value);
            }
        }
        Err(self.fault(if bytes.len() < 10 { "ends within a number" } else { "holds a number of more than 64 bits" }))
    }

    #[inline(always)]
    fn bytes(&mut self, length: u64) -> Result<Message<'b>, Fault> {
        let rest = &self.message.bytes[self.at..];
        let found = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let Some(bytes) = found else { return Err(self.fault("ends within a field")) };
        let found = Message { bytes, offset: self.offset() };
        self.at += bytes.len();
        Ok(found)
    }

    /// The next field with its number; `None` at the end.
    ///
    /// A large profile has millions, nearly all of them a number or bytes with a number below 16: only these are worth
    /// being compiled into each place that asks.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Option<(u64, Field<'b>)>, Fault> {
        let Some(&tag) = self.message.bytes.get(self.at) else { return Ok(None) };
        let field = match tag & 0x87 {
            0 if tag >= 8 => {
                self.at += 1;
                Field::Number(self.number()?)
            }
            2 if tag >= 8 => {
                self.at += 1;
                let length = self.number()?;
                Field::Bytes(self.bytes(length)?)
            }
            _ => return self.other_field().map(Some),
        };
        Ok(Some((u64::from(tag >> 3), field)))
    }

    /// The next field, of any kind.
    #[inline(never)]
    fn other_field(&mut self) -> Result<(u64, Field<'b>), Fault> {
        let start = self.offset();
        let tag = self.number()?;
        let field = match tag & 7 {
            0 => Field::Number(self.number()?),
            2 => {
                let length = self.number()?;
                Field::Bytes(self.bytes(length)?)
            }
            1 => self.bytes(8).map(|_| Field::Fixed)?,
            5 => self.bytes(4).map(|_| Field::Fixed)?,
            kind => return Err(Fault::at_byte(start, format!("is not a field of a profile (wire type {kind})"))),
        };
        if tag >> 3 == 0 {
            return Err(Fault::at_byte(start, "is not a field of a profile (number 0)"));
        }
        Ok((tag >> 3, field))
    }
}

impl<'b> Field<'b> {
    /// The message, which this field must be.
    #[inline]
    pub(super) fn message(self, offset: usize, what: &str) -> Result<Message<'b>, Fault> {
        match self {
            Self::Bytes(message) => Ok(message),
            _ => Err(Fault::at_byte(offset, format!("should be {what} but is a number"))),
        }
    }

    /// The number, which this field must be.
    #[inline]
    pub(super) fn number(self, offset: usize, what: &str) -> Result<u64, Fault> {
        match self {
            Self::Number(number) => Ok(number),
            _ => Err(Fault::at_byte(offset, format!("should be {what}, a number"))),
        }
    }

    /// Numbers, one or packed.
    #[inline(always)]
    pub(super) fn numbers(self, offset: usize, what: &str, mut each: impl FnMut(u64)) -> Result<(), Fault> {
        match self {
            Self::Number(number) => each(number),
            Self::Bytes(message) => {
                let mut at = 0;
                // Four bytes at once are distinguished faster than one by one.
                while let Some(four) = message.bytes.get(at..).and_then(<[u8]>::first_chunk::<4>) {
                    let four = u32::from_le_bytes(*four);
                    let short = [four & 0x7f, four >> 1 & 0x3f80, four >> 2 & 0x001f_c000];
                    let (value, length) = match four {
                        _ if four & 0x80 == 0 => (short[0], 1),
                        _ if four & 0x8000 == 0 => (short[0] | short[1], 2),
                        _ if four & 0x0080_0000 == 0 => (short[0] | short[1] | short[2], 3),
                        _ => {
                            let mut walk = Walk { message, at };
                            each(walk.number()?);
                            at = walk.at;
                            continue;
                        }
                    };
                    each(u64::from(value));
                    at += length;
                }
                let mut walk = Walk { message, at };
                while !walk.is_over() {
                    each(walk.number()?);
                }
            }
            Self::Fixed => return Err(Fault::at_byte(offset, format!("should be {what}"))),
        }
        Ok(())
    }
}
