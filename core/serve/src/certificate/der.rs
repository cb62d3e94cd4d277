//! A reader of DER, as far as certificates need it: tag, length, value. It never reads beyond the input.

/// The tags in a certificate.
pub(super) mod tag {
    pub(in super::super) const BOOLEAN: u8 = 0x01;
    pub(in super::super) const INTEGER: u8 = 0x02;
    pub(in super::super) const OCTET_STRING: u8 = 0x04;
    pub(in super::super) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(in super::super) const UTC_TIME: u8 = 0x17;
    pub(in super::super) const GENERALIZED_TIME: u8 = 0x18;
    pub(in super::super) const SEQUENCE: u8 = 0x30;
    pub(in super::super) const SET: u8 = 0x31;
    pub(in super::super) const VERSION: u8 = 0xa0;
    pub(in super::super) const EXTENSIONS: u8 = 0xa3;
    pub(in super::super) const EMAIL: u8 = 0x81;
    pub(in super::super) const DNS: u8 = 0x82;
    pub(in super::super) const URI: u8 = 0x86;
    pub(in super::super) const ADDRESS: u8 = 0x87;
}

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next value with its tag; `None` at the end or if the bytes are malformed.
    pub(super) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Two gigabytes are more than any certificate has.
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = digits
                    .iter()
                    .fold(0_usize, |length, &digit| length << 8 | usize::from(digit));
                (length, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }

    /// The next value, which must have this tag.
    pub(super) fn value(&mut self, wanted: u8) -> Option<&'a [u8]> {
        self.next()
            .and_then(|(tag, value)| (tag == wanted).then_some(value))
    }

    /// The content of the next value, which must have this tag.
    pub(super) fn enter(&mut self, wanted: u8) -> Option<Self> {
        self.value(wanted).map(Self)
    }

    pub(super) fn skip(&mut self) -> Option<()> {
        self.next().map(drop)
    }

    /// Skips the next value, if it has this tag.
    pub(super) fn skip_if(&mut self, kind: u8) {
        if self.0.first() == Some(&kind) {
            let _ = self.skip();
        }
    }
}
