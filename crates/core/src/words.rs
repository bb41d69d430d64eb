//! Enums whose values have names: the words that rows keep and answers show.

/// Declares an enum together with the name of each of its values. `ALL`, `NAMES`, `name()` and `parse()` follow from the
/// one list.
macro_rules! words {
    ($(#[$about:meta])* $type:ident { $($(#[$meaning:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$meaning])* $value,)+
        }

        impl $type {
            pub const ALL: &'static [$type] = &[$($type::$value),+];
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$value => $name,)+
                }
            }

            /// The value of this name. None: there is no such value.
            pub fn parse(name: &str) -> Option<$type> {
                match name {
                    $($name => Some($type::$value),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use words;

/// The words of the first list after `mark` in a file of the schema: those of `… IN ('a', 'b')`.
#[cfg(test)]
pub(crate) fn listed<'a>(sql: &'a str, mark: &str) -> Vec<&'a str> {
    let rest = sql.split_once(mark).unwrap_or_else(|| panic!("the schema has no {mark}")).1;
    let list = rest.split_once('\'').and_then(|(_, rest)| rest.split_once("')")).expect("a list of words").0;
    list.split("', '").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    words! {
        /// Colours of a lamp.
        Lamp {
            Red = "red",
            /// Go.
            Green = "green",
        }
    }

    #[test]
    fn names_and_values_follow_from_one_list() {
        assert_eq!(Lamp::ALL, [Lamp::Red, Lamp::Green]);
        assert_eq!(Lamp::NAMES, ["red", "green"]);
        assert!(Lamp::ALL.iter().all(|lamp| Lamp::parse(lamp.name()) == Some(*lamp)));
        assert_eq!((Lamp::parse("Red"), Lamp::parse("")), (None, None));
    }

    #[test]
    fn the_list_after_a_mark_is_found() {
        let sql = "CHECK (other IN ('z')), CONSTRAINT lamp_check CHECK (lamp IN\n    ('red', 'green')) 'x'";
        assert_eq!(listed(sql, "lamp_check"), Lamp::NAMES);
    }
}
