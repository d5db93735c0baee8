/*
 * A driver for SD cards in SPI mode, on flashlab's SPI bus. SD Physical Layer Simplified Specification, chapter 7:
 * initialisation with CMD0, CMD8, CMD59 and ACMD41, addressing by CMD58, single blocks with CMD17 and CMD24. The driver
 * checks every checksum. A driver for real hardware differs only in the functions that move bytes and wait.
 */
#ifndef SD_SPI_H
#define SD_SPI_H

#include <flashlab.h>

enum { SD_BLOCK = 512 };

enum sd_result {
    SD_OK = 0,
    SD_NO_CARD,         /* CMD0 did not put a card into the idle state. */
    SD_NOT_USABLE,      /* The card rejects the voltage, or the echo of CMD8 is wrong. */
    SD_INIT_TIMEOUT,    /* The card stays in its initialisation for more than a second. */
    SD_NO_RESPONSE,     /* A command had no response. */
    SD_REJECTED,        /* R1 reports an error; sd_card.r1 holds it. */
    SD_READ_TIMEOUT,    /* The data did not begin within 100 ms. */
    SD_READ_ERROR,      /* The card sent an error token. */
    SD_READ_CRC,        /* The checksum of the data was wrong. */
    SD_WRITE_CRC,       /* The card found a wrong checksum. */
    SD_WRITE_ERROR,     /* The card could not write. */
    SD_WRITE_TIMEOUT    /* The card was busy for more than 500 ms. */
};

struct sd_card {
    flashlab_spi *spi;
    bool addresses_blocks; /* A card of more than 2 GB (SDHC, SDXC) addresses blocks, a smaller card bytes. */
    uint8_t r1;            /* The last R1. */
};

/* Brings the card up at 400 kHz, then sets the clock to clock_hz. */
enum sd_result sd_init(struct sd_card *card, flashlab_spi *spi, uint32_t clock_hz);
enum sd_result sd_read(struct sd_card *card, uint32_t block, uint8_t *bytes);
enum sd_result sd_write(struct sd_card *card, uint32_t block, const uint8_t *bytes);

/* The checksums of commands (7 bits) and of data, for tests with wrong checksums. */
uint8_t sd_crc7(const uint8_t *bytes, size_t length);
uint16_t sd_crc16(const uint8_t *bytes, size_t length);

#endif
