//! Indices of the commands, by the names of the SD Physical Layer Specification, section 4.7.4.

/// Declares the indices, and a function that returns the name of an index.
macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $index:literal;)+) => {
        $($(#[$doc])* pub const $name: u8 = $index;)+

        /// Returns the name of a command in the specification.
        pub fn name(index: u8) -> Option<&'static str> {
            match index {
                $($index => Some(stringify!($name)),)+
                _ => None,
            }
        }
    };
}

opcodes! {
    /// CMD0: resets all cards to idle state.
    GO_IDLE_STATE = 0;
    /// CMD1: starts the initialisation in SPI mode, or of an MMC card.
    SEND_OP_COND = 1;
    /// CMD2: asks all cards for their CID.
    ALL_SEND_CID = 2;
    /// CMD3: asks the card to publish a relative address.
    SEND_RELATIVE_ADDR = 3;
    /// CMD4: sets the driver stage register.
    SET_DSR = 4;
    /// CMD5: asks an SDIO card for its operating conditions.
    IO_SEND_OP_COND = 5;
    /// CMD6: checks or switches the functions of the card.
    SWITCH_FUNC = 6;
    /// CMD7: selects the card with the address, and deselects all others.
    SELECT_CARD = 7;
    /// CMD8: sends the host's voltage range and a check pattern.
    SEND_IF_COND = 8;
    /// CMD9: asks for the CSD.
    SEND_CSD = 9;
    /// CMD10: asks for the CID.
    SEND_CID = 10;
    /// CMD11: switches the signals to 1.8 V.
    VOLTAGE_SWITCH = 11;
    /// CMD12: stops a transfer of several blocks.
    STOP_TRANSMISSION = 12;
    /// CMD13: asks for the card status.
    SEND_STATUS = 13;
    /// CMD15: makes the card inactive.
    GO_INACTIVE_STATE = 15;
    /// CMD16: sets the block length.
    SET_BLOCKLEN = 16;
    /// CMD17: reads one block.
    READ_SINGLE_BLOCK = 17;
    /// CMD18: reads blocks until a stop command, or until the block count is reached.
    READ_MULTIPLE_BLOCK = 18;
    /// CMD19: asks for the tuning block.
    SEND_TUNING_BLOCK = 19;
    /// CMD20: controls the speed class recording.
    SPEED_CLASS_CONTROL = 20;
    /// CMD22: sets the upper address bits for an SDUC card.
    ADDRESS_EXTENSION = 22;
    /// CMD23: sets the number of blocks of the next transfer.
    SET_BLOCK_COUNT = 23;
    /// CMD24: writes one block.
    WRITE_BLOCK = 24;
    /// CMD25: writes blocks until a stop command, or until the block count is reached.
    WRITE_MULTIPLE_BLOCK = 25;
    /// CMD27: programs the writable bits of the CSD.
    PROGRAM_CSD = 27;
    /// CMD28: protects a group of blocks against writing.
    SET_WRITE_PROT = 28;
    /// CMD29: removes the protection of a group of blocks.
    CLR_WRITE_PROT = 29;
    /// CMD30: asks for the protection of groups of blocks.
    SEND_WRITE_PROT = 30;
    /// CMD32: sets the first block to erase.
    ERASE_WR_BLK_START = 32;
    /// CMD33: sets the last block to erase.
    ERASE_WR_BLK_END = 33;
    /// CMD38: erases or discards the selected blocks.
    ERASE = 38;
    /// CMD42: sets or clears the password, or locks or unlocks the card.
    LOCK_UNLOCK = 42;
    /// CMD48: reads from an extension register space.
    READ_EXTR_SINGLE = 48;
    /// CMD49: writes to an extension register space.
    WRITE_EXTR_SINGLE = 49;
    /// CMD52: reads or writes a register of an SDIO card.
    IO_RW_DIRECT = 52;
    /// CMD55: announces an application command.
    APP_CMD = 55;
    /// CMD56: transfers a block for general or vendor purposes.
    GEN_CMD = 56;
    /// CMD58: asks for the OCR in SPI mode.
    READ_OCR = 58;
    /// CMD59: turns the CRC check on or off in SPI mode.
    CRC_ON_OFF = 59;
}

/// Indices of the application commands, which [`APP_CMD`] announces.
pub mod app {
    opcodes! {
        /// ACMD6: sets the number of data lines.
        SET_BUS_WIDTH = 6;
        /// ACMD13: asks for the SD Status.
        SD_STATUS = 13;
        /// ACMD22: asks for the number of blocks written without error.
        SEND_NUM_WR_BLOCKS = 22;
        /// ACMD23: sets the number of blocks to erase before a write.
        SET_WR_BLK_ERASE_COUNT = 23;
        /// ACMD41: sends the host's operating conditions, and starts the initialisation.
        SD_SEND_OP_COND = 41;
        /// ACMD42: connects or disconnects the pull-up of DAT3.
        SET_CLR_CARD_DETECT = 42;
        /// ACMD51: asks for the SCR.
        SEND_SCR = 51;
    }
}
