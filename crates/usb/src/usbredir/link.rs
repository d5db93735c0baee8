//! The peer's view of the device's connection to the bus.

/// Packet that tells the peer about the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Announcement {
    Connect,
    Disconnect,
}

/// The connection that the peer knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    /// Number of the connection that was announced last; `None` while the peer does not see the device.
    announced: Option<u32>,
    /// True if the peer has not yet acknowledged a disconnection. Until it does, the peer may send packets
    /// for the old connection, so no new connection is announced.
    awaits_acknowledgement: bool,
}

impl Link {
    /// Returns true if the peer sees the device.
    pub(super) fn is_connected(&self) -> bool {
        self.announced.is_some()
    }

    /// Handles the peer's acknowledgement of a disconnection.
    pub(super) fn acknowledge(&mut self) {
        self.awaits_acknowledgement = false;
    }

    /// Returns the next announcement about `connection`, the number of the device's present connection.
    /// `is_acknowledged` tells if the peer acknowledges disconnections.
    pub(super) fn update(&mut self, connection: Option<u32>, is_acknowledged: bool) -> Option<Announcement> {
        if self.announced == connection {
            return None;
        }
        if self.announced.is_some() {
            self.announced = None;
            self.awaits_acknowledgement = is_acknowledged;
            return Some(Announcement::Disconnect);
        }
        if self.awaits_acknowledgement {
            return None;
        }
        self.announced = connection;
        Some(Announcement::Connect)
    }
}
