//! Numbers that have names: an enum with one variant a name and `Other` for the rest.

/// Declares such an enum with its number on the wire and the name that the specification gives it.
macro_rules! numbers {
    ($(#[$about:meta])* $name:ident: $int:ty { $($(#[$doc:meta])* $variant:ident = $value:expr, $spec:literal;)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
            /// A number without a name.
            Other($int),
        }

        impl $name {
            /// The meaning of a number.
            #[inline]
            pub fn from_wire(number: $int) -> $name {
                $(if number == $value { return $name::$variant; })+
                $name::Other(number)
            }
            /// The number.
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
