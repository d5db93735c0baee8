//! Enums for named protocol numbers, with the variant `Other` for unknown numbers.

/// Declares an enum of named numbers, with each number on the wire and its name in the specification.
macro_rules! numbers {
    ($(#[$about:meta])* $name:ident: $int:ty { $($(#[$doc:meta])* $variant:ident = $value:expr, $spec:literal;)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
            /// An unknown number.
            Other($int),
        }

        impl $name {
            /// Returns the variant of a number.
            #[inline]
            pub fn from_wire(number: $int) -> $name {
                $(if number == $value { return $name::$variant; })+
                $name::Other(number)
            }
            /// Returns the number.
            #[inline]
            pub fn to_wire(self) -> $int {
                match self {
                    $($name::$variant => $value,)+
                    $name::Other(number) => number,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $($name::$variant => f.write_str($spec),)+
                    $name::Other(number) => write!(f, "{number:#x}"),
                }
            }
        }
    };
}
pub(super) use numbers;
