//! Protobuf's wire format: numbered fields, one after the other.

/// A field's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raw<'a> {
    Varint(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Raw<'a> {
    /// The content of a text, a message or bytes.
    pub(super) fn bytes(&self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err("a field has the wrong wire type".to_owned()),
        }
    }

    /// The content of a number.
    pub(super) fn number(&self) -> Result<i64, String> {
        match self {
            Self::Varint(number) | Self::Fixed(number) => Ok(number.cast_signed()),
            Self::Bytes(_) => Err("a field has the wrong wire type".to_owned()),
        }
    }
}

/// Reads field after field.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number does not end".to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("unexpected EOF")?;
        self.0 = rest;
        Ok(taken)
    }

    fn fixed(&mut self, length: usize) -> Result<u64, String> {
        let bytes = self.take(length)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn field(&mut self) -> Result<(u64, Raw<'a>), String> {
        let tag = self.varint()?;
        let raw = match tag & 7 {
            0 => Raw::Varint(self.varint()?),
            1 => Raw::Fixed(self.fixed(8)?),
            2 => {
                let length = self.varint()?;
                Raw::Bytes(self.take(usize::try_from(length).map_err(|_| "unexpected EOF")?)?)
            }
            5 => Raw::Fixed(self.fixed(4)?),
            other => return Err(format!("unknown wire type {other}")),
        };
        Ok((tag >> 3, raw))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u64, Raw<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// A text.
pub(super) fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a text is not UTF-8".to_owned())
}
