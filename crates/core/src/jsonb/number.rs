//! The server's form of numbers: digits of base 10,000 without zeros at either end, the place of the first one, a sign,
//! and how many decimals are shown.

use serde_json::Number;
use std::fmt::{self, Display, Write};

const BASE: u64 = 10_000;
/// Decimal digits in one of the digits.
const WIDTH: usize = 4;
const SPECIAL: u16 = 0xC000;
const SHORT: u16 = 0x8000;
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_SCALE: u16 = 0x1F80;
const SHORT_WEIGHT_NEGATIVE: u16 = 0x0040;
const SHORT_WEIGHT: u16 = 0x003F;
const LONG_NEGATIVE: u16 = 0x4000;
const LONG_SCALE: u16 = 0x3FFF;
/// A number whose first digit stands before this place is below 1e308, and so has a double.
const ALWAYS_A_DOUBLE: i32 = 77;

/// A number in the server's form, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Decimal<'a> {
    negative: bool,
    /// The first digit counts this many powers of the base.
    weight: i32,
    /// Decimals that are shown.
    scale: usize,
    digits: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |pair| u16::from_ne_bytes([pair[0], pair[1]]))
}

impl<'a> Decimal<'a> {
    /// Reads a number as it stands in a value. None: it is none, as "not a number" is.
    pub fn read(bytes: &'a [u8]) -> Option<Decimal<'a>> {
        // The length before it takes one byte or four.
        let first = *bytes.first()?;
        let is_short = if cfg!(target_endian = "little") { first & 1 == 1 } else { first & 0x80 != 0 };
        let bytes = bytes.get(if is_short { 1 } else { 4 }..)?;
        let header = word(bytes, 0);
        match header & SPECIAL {
            SPECIAL => None,
            SHORT => {
                let weight = i32::from(header & SHORT_WEIGHT);
                let below = header & SHORT_WEIGHT_NEGATIVE != 0;
                Some(Decimal {
                    negative: header & SHORT_NEGATIVE != 0,
                    weight: if below { weight - i32::from(SHORT_WEIGHT) - 1 } else { weight },
                    scale: usize::from((header & SHORT_SCALE) >> 7),
                    digits: bytes.get(2..)?,
                })
            }
            sign => Some(Decimal {
                negative: sign == LONG_NEGATIVE,
                weight: i32::from(word(bytes, 2) as i16),
                scale: usize::from(header & LONG_SCALE),
                digits: bytes.get(4..)?,
            }),
        }
    }

    /// The digit that counts this power of the base.
    fn digit(&self, power: i32) -> u16 {
        let place = usize::try_from(self.weight - power).unwrap_or(usize::MAX / 4);
        word(self.digits, place * 2)
    }

    /// Its value, if it is a whole number that is written without decimals, and not too large.
    pub fn whole(&self) -> Option<i64> {
        if self.scale > 0 || self.weight > 4 {
            return None;
        }
        let size =
            (0..=self.weight).rev().fold(0_i128, |sum, power| sum * i128::from(BASE) + i128::from(self.digit(power)));
        i64::try_from(if self.negative { -size } else { size }).ok()
    }

    /// The number as JSON that was parsed has it: whole ones of 64 bits are kept, others are a double. None: it is
    /// larger than any double.
    pub fn number(&self) -> Option<Number> {
        match self.whole() {
            Some(whole) => Some(whole.into()),
            None => serde_json::from_str(&self.to_string()).ok(),
        }
    }

    /// Whether there is a double for it.
    pub fn is_double(&self) -> bool {
        self.weight < ALWAYS_A_DOUBLE || self.number().is_some()
    }
}

/// As the server writes it.
impl Display for Decimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_char('-')?;
        }
        write!(f, "{}", if self.weight < 0 { 0 } else { self.digit(self.weight) })?;
        for power in (0..self.weight).rev() {
            write!(f, "{:04}", self.digit(power))?;
        }
        if self.scale > 0 {
            f.write_char('.')?;
        }
        let mut left = self.scale;
        for power in (1..).map(|place: i32| -place) {
            if left == 0 {
                break;
            }
            let decimals = format!("{:04}", self.digit(power));
            let shown = left.min(WIDTH);
            f.write_str(&decimals[..shown])?;
            left -= shown;
        }
        Ok(())
    }
}

/// Appends a whole number.
pub fn append_whole(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0_u16; 5];
    let mut rest = number.unsigned_abs();
    let mut first = digits.len();
    while rest > 0 {
        first -= 1;
        digits[first] = (rest % BASE) as u16;
        rest /= BASE;
    }
    let digits = &digits[first..];
    append_digits(out, number < 0, digits.len() as i32 - 1, 0, digits);
}

/// Appends a number that was parsed, with the decimals that its text shows.
pub fn append(out: &mut Vec<u8>, number: &Number) {
    if let Some(whole) = number.as_i64() {
        return append_whole(out, whole);
    }
    let text = number.to_string();
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let negative = mantissa.starts_with('-');
    let (whole, decimals) =
        mantissa.trim_start_matches('-').split_once('.').unwrap_or((mantissa.trim_start_matches('-'), ""));
    // Zeros before it make the place of the first decimal digit one where a digit of the base begins.
    let before = whole.len() as i32 + exponent;
    let weight = (before - 1).div_euclid(WIDTH as i32);
    let zeros = (weight + 1) * WIDTH as i32 - before;
    let all = std::iter::repeat_n(b'0', zeros as usize).chain(whole.bytes()).chain(decimals.bytes());
    let all: Vec<u8> = all.collect();
    let digit = |part: &[u8]| {
        (0..WIDTH).fold(0_u16, |sum, place| sum * 10 + part.get(place).map_or(0, |byte| u16::from(byte - b'0')))
    };
    let digits: Vec<u16> = all.chunks(WIDTH).map(digit).collect();
    let scale = (decimals.len() as i32 - exponent).max(0);
    append_digits(out, negative, weight, scale as u16, &digits);
}

/// Appends digits, of which the first counts `weight` powers of the base, without the zeros at either end.
fn append_digits(out: &mut Vec<u8>, negative: bool, weight: i32, scale: u16, digits: &[u16]) {
    let first = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
    let digits = &digits[first..];
    let kept = digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
    let (negative, weight) = if kept == 0 { (false, 0) } else { (negative, weight - first as i32) };
    let is_short = scale <= SHORT_SCALE >> 7 && (-64..64).contains(&weight);
    let header: &[u16] = if is_short {
        let sign = if negative { SHORT_NEGATIVE } else { 0 };
        &[SHORT | sign | (scale << 7) | (weight as u16 & (SHORT_WEIGHT_NEGATIVE | SHORT_WEIGHT))]
    } else {
        &[if negative { LONG_NEGATIVE } else { 0 } | (scale & LONG_SCALE), weight as u16]
    };
    let length = 4 + 2 * (header.len() + kept) as u32;
    let varlena = if cfg!(target_endian = "little") { length << 2 } else { length };
    out.extend_from_slice(&varlena.to_ne_bytes());
    header.iter().chain(&digits[..kept]).for_each(|word| out.extend_from_slice(&word.to_ne_bytes()));
}
