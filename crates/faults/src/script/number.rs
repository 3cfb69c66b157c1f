//! Which of a row of whole numbers are meant.

use std::fmt;
use std::ops::{RangeFrom, RangeInclusive};
use std::str::FromStr;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which of a row of whole numbers are meant. Rows count from 1.
///
/// In JSON: `7`, `[1, 4]`, `"1-3"`, `"5-"`, `"every 10"`, `"1,2 of 4"` (the first and second of each four),
/// `"random 1-40"` (one number, drawn for each connection).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Number {
    /// This one.
    Is(u64),
    /// Any of these.
    OneOf(Vec<u64>),
    /// From the first to the second, both included.
    Between(u64, u64),
    /// This one and all after it.
    From(u64),
    /// Every n-th: n, 2n, 3n, …
    Every(u64),
    /// The row in rounds of `of`; in each round these.
    Round {
        /// Positions in the round, from 1.
        is: Vec<u64>,
        /// How long a round is.
        of: u64,
    },
    /// One number between these two, both included, drawn from the seed.
    Random {
        /// The smallest.
        from: u64,
        /// The largest.
        to: u64,
    },
}

impl Number {
    /// The first and second, say, of each four: `Number::round([1, 2], 4)`.
    pub fn round(is: impl Into<Vec<u64>>, of: u64) -> Self {
        Self::Round { is: is.into(), of: of.max(1) }
    }

    pub(crate) fn matches(&self, number: u64, draw: impl FnOnce() -> u64) -> bool {
        match self {
            Self::OneOf(numbers) => numbers.contains(&number),
            Self::Between(from, to) => (*from..=*to).contains(&number),
            Self::From(from) => number >= *from,
            Self::Every(step) => number != 0 && number.is_multiple_of(*step),
            Self::Round { is, of } => number != 0 && is.contains(&((number - 1) % (*of).max(1) + 1)),
            Self::Is(_) | Self::Random { .. } => number == self.pick(draw),
        }
    }

    /// The number itself where one is meant; of several, the first.
    pub(crate) fn pick(&self, draw: impl FnOnce() -> u64) -> u64 {
        match self {
            Self::Is(number) | Self::From(number) | Self::Every(number) | Self::Between(number, _) => *number,
            Self::OneOf(numbers) | Self::Round { is: numbers, .. } => numbers.first().copied().unwrap_or(0),
            Self::Random { from, to } => {
                // A span of 2^64 does not fit; then any number will do.
                to.saturating_sub(*from).checked_add(1).map_or(0, |span| draw() % span) + from
            }
        }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Is(number)
    }
}

impl From<RangeInclusive<u64>> for Number {
    fn from(range: RangeInclusive<u64>) -> Self {
        Self::Between(*range.start(), *range.end())
    }
}

impl From<RangeFrom<u64>> for Number {
    fn from(range: RangeFrom<u64>) -> Self {
        Self::From(range.start)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::Is(number) => write!(f, "{number}"),
            Self::OneOf(numbers) => f.write_str(&list(numbers)),
            Self::Between(from, to) => write!(f, "{from}-{to}"),
            Self::From(from) => write!(f, "{from}-"),
            Self::Every(step) => write!(f, "every {step}"),
            Self::Round { is, of } => write!(f, "{} of {of}", list(is)),
            Self::Random { from, to } => write!(f, "random {from}-{to}"),
        }
    }
}

impl FromStr for Number {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| ());
        let list = |text: &str| text.split(',').map(number).collect::<Result<Vec<_>, _>>();
        let range = |text: &str| {
            let (from, to) = text.split_once('-').ok_or(())?;
            let (from, to) = (number(from)?, number(to)?);
            if from <= to { Ok((from, to)) } else { Err(()) }
        };
        if let Some(step) = text.strip_prefix("every ") {
            return number(step).and_then(|step| if step == 0 { Err(()) } else { Ok(Self::Every(step)) });
        }
        if let Some(text) = text.strip_prefix("random ") {
            return range(text).map(|(from, to)| Self::Random { from, to });
        }
        if let Some((is, of)) = text.split_once(" of ") {
            let (is, of) = (list(is)?, number(of)?);
            let fits = is.iter().all(|position| (1..=of).contains(position));
            return if fits { Ok(Self::Round { is, of }) } else { Err(()) };
        }
        if let Some(from) = text.strip_suffix('-') {
            return number(from).map(Self::From);
        }
        if text.contains('-') {
            return range(text).map(|(from, to)| Self::Between(from, to));
        }
        Ok(match list(text)?.as_slice() {
            [number] => Self::Is(*number),
            numbers => Self::OneOf(numbers.to_vec()),
        })
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Is(number) => serializer.serialize_u64(*number),
            Self::OneOf(numbers) => numbers.serialize(serializer),
            other => serializer.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a whole number, a list of them, \"1-3\", \"5-\", \"every 10\", \"1,2 of 4\" or \"random 1-40\"",
                )
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number::Is(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                text.parse().map_err(|()| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Number, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = list.next_element()? {
                    numbers.push(number);
                }
                Ok(Number::OneOf(numbers))
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(text: &str) -> Vec<u64> {
        let number: Number = text.parse().unwrap();
        assert_eq!(number.to_string(), text);
        (0..=12).filter(|n| number.matches(*n, || 5)).collect()
    }

    #[test]
    fn each_form_matches_its_numbers() {
        assert_eq!(matching("7"), [7]);
        assert_eq!(matching("1,4"), [1, 4]);
        assert_eq!(matching("2-3"), [2, 3]);
        assert_eq!(matching("11-"), [11, 12]);
        assert_eq!(matching("every 5"), [5, 10]);
        assert_eq!(matching("1,2 of 4"), [1, 2, 5, 6, 9, 10]);
        assert_eq!(matching("random 1-4"), [2]);
    }

    #[test]
    fn numbers_that_no_text_can_name_do_no_harm() {
        let backwards = Number::Random { from: 40, to: 1 };
        assert!(backwards.matches(40, || 7) && !backwards.matches(1, || 7));
        assert!(Number::Round { is: vec![1], of: 0 }.matches(3, || 7));
        assert!(!Number::Every(0).matches(3, || 7));
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in ["", "x", "3-1", "every 0", "5 of 4", "0 of 4", "-3", "random 4", "1.5", "every"] {
            assert!(bad.parse::<Number>().is_err(), "{bad:?}");
        }
    }
}
