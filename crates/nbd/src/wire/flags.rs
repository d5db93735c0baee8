//! The flag fields (proto.md, "Flag fields" of the handshake phase and the transmission phase).

/// Declares a set of flags over an integer.
macro_rules! flags {
    ($(#[$about:meta])* $name:ident: $int:ty { $($(#[$doc:meta])* $flag:ident = $bit:literal;)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$doc])* pub const $flag: $name = $name(1 << $bit);)+
            /// No flag.
            pub const NONE: $name = $name(0);
            /// All defined flags.
            pub const ALL: $name = $name(0 $(| 1 << $bit)+);

            /// Returns true if all flags of `other` are set.
            #[inline]
            pub const fn contains(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }
            /// Returns the union of the two sets.
            #[inline]
            #[must_use]
            pub const fn with(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
            /// Returns the union of the two sets if `condition` holds, otherwise `self`.
            #[inline]
            #[must_use]
            pub const fn with_if(self, condition: bool, other: $name) -> $name {
                if condition { self.with(other) } else { self }
            }
            /// Returns the flags that are not in `other`.
            #[inline]
            #[must_use]
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }
            /// Returns true if no flag is set.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }

        impl core::ops::BitOr for $name {
            type Output = $name;
            fn bitor(self, other: $name) -> $name {
                self.with(other)
            }
        }
    };
}

flags! {
    /// Flags in the server's greeting ("Handshake flags").
    HandshakeFlags: u16 {
        /// `NBD_FLAG_FIXED_NEWSTYLE`: the server replies to options.
        FIXED_NEWSTYLE = 0;
        /// `NBD_FLAG_NO_ZEROES`: the 124 zero bytes can be omitted.
        NO_ZEROES = 1;
    }
}

flags! {
    /// Flags in the client's reply to the greeting ("Client flags").
    ClientFlags: u32 {
        /// `NBD_FLAG_C_FIXED_NEWSTYLE`.
        FIXED_NEWSTYLE = 0;
        /// `NBD_FLAG_C_NO_ZEROES`.
        NO_ZEROES = 1;
    }
}

flags! {
    /// Properties of an export ("Transmission flags").
    TransmissionFlags: u16 {
        /// `NBD_FLAG_HAS_FLAGS`: always set.
        HAS_FLAGS = 0;
        /// `NBD_FLAG_READ_ONLY`.
        READ_ONLY = 1;
        /// `NBD_FLAG_SEND_FLUSH`.
        SEND_FLUSH = 2;
        /// `NBD_FLAG_SEND_FUA`.
        SEND_FUA = 3;
        /// `NBD_FLAG_ROTATIONAL`.
        ROTATIONAL = 4;
        /// `NBD_FLAG_SEND_TRIM`.
        SEND_TRIM = 5;
        /// `NBD_FLAG_SEND_WRITE_ZEROES`.
        SEND_WRITE_ZEROES = 6;
        /// `NBD_FLAG_SEND_DF`.
        SEND_DF = 7;
        /// `NBD_FLAG_CAN_MULTI_CONN`.
        CAN_MULTI_CONN = 8;
        /// `NBD_FLAG_SEND_RESIZE`.
        SEND_RESIZE = 9;
        /// `NBD_FLAG_SEND_CACHE`.
        SEND_CACHE = 10;
        /// `NBD_FLAG_SEND_FAST_ZERO`.
        SEND_FAST_ZERO = 11;
        /// `NBD_FLAG_BLOCK_STATUS_PAYLOAD`.
        BLOCK_STATUS_PAYLOAD = 12;
    }
}

flags! {
    /// Flags of a request ("Command flags").
    CommandFlags: u16 {
        /// `NBD_CMD_FLAG_FUA`: the change is durable before the reply is sent.
        FUA = 0;
        /// `NBD_CMD_FLAG_NO_HOLE`: the range of zeroes stays allocated.
        NO_HOLE = 1;
        /// `NBD_CMD_FLAG_DF`: the reply has at most one content chunk.
        DF = 2;
        /// `NBD_CMD_FLAG_REQ_ONE`: the reply has one extent per context.
        REQ_ONE = 3;
        /// `NBD_CMD_FLAG_FAST_ZERO`: the command fails if it is not faster than a write.
        FAST_ZERO = 4;
        /// `NBD_CMD_FLAG_PAYLOAD_LEN`: the length of an extended request is the length of its payload.
        PAYLOAD_LEN = 5;
    }
}

flags! {
    /// Flags of a reply chunk ("Structured reply flags").
    ReplyFlags: u16 {
        /// `NBD_REPLY_FLAG_DONE`: the last chunk of a reply.
        DONE = 0;
    }
}
