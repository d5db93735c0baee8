#include "sd_spi.h"

#include <stdlib.h>

enum {
    R1_IDLE = 1 << 0,
    R1_ILLEGAL_COMMAND = 1 << 2,
    OCR_CCS = 1 << 30,
    TOKEN_START = 0xfe,
    RESPONSE_MASK = 0x1f,
    RESPONSE_ACCEPTED = 0x05,
    RESPONSE_CRC_ERROR = 0x0b
};

#define ARGUMENT_HCS (UINT32_C(1) << 30)
#define MS UINT64_C(1000000)

/* Limits of section 4.6.2 and of ACMD41. */
#define INIT_LIMIT (1000 * MS)
#define READ_LIMIT (100 * MS)
#define WRITE_LIMIT (500 * MS)

/* ---- The bus: the only part that depends on flashlab ---- */

static uint8_t exchange(struct sd_card *card, uint8_t byte) {
    uint8_t answer;
    if (flashlab_spi_exchange(card->spi, byte, &answer, NULL) != FLASHLAB_OK) {
        abort();
    }
    return answer;
}

static void select_card(struct sd_card *card, bool selected) {
    if (flashlab_spi_select(card->spi, selected, NULL) != FLASHLAB_OK) {
        abort();
    }
    /* A card releases its line one byte after chip select has risen (section 7.5). */
    exchange(card, 0xff);
}

static uint64_t now(struct sd_card *card) {
    uint64_t ns;
    if (flashlab_spi_now(card->spi, &ns, NULL) != FLASHLAB_OK) {
        abort();
    }
    return ns;
}

static void set_clock(struct sd_card *card, uint32_t clock_hz) {
    if (flashlab_spi_set_clock(card->spi, clock_hz, NULL) != FLASHLAB_OK) {
        abort();
    }
}

/* ---- Checksums ---- */

uint8_t sd_crc7(const uint8_t *bytes, size_t length) {
    uint8_t crc = 0;
    size_t n;
    int bit;
    for (n = 0; n < length; n++) {
        crc ^= bytes[n];
        for (bit = 0; bit < 8; bit++) {
            crc = (uint8_t)(crc & 0x80 ? crc << 1 ^ 0x12 : crc << 1);
        }
    }
    return crc >> 1;
}

uint16_t sd_crc16(const uint8_t *bytes, size_t length) {
    uint16_t crc = 0;
    size_t n;
    int bit;
    for (n = 0; n < length; n++) {
        crc ^= (uint16_t)(bytes[n] << 8);
        for (bit = 0; bit < 8; bit++) {
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
        }
    }
    return crc;
}

/* ---- Commands ---- */

/* Waits until the card releases its line. Returns false after the limit. */
static bool wait_ready(struct sd_card *card, uint64_t limit_ns) {
    uint64_t end = now(card) + limit_ns;
    while (exchange(card, 0xff) != 0xff) {
        if (now(card) > end) {
            return false;
        }
    }
    return true;
}

/* Sends a command and receives R1. Returns false without a response, which comes after 8 bytes at most (N_CR). */
static bool command(struct sd_card *card, uint8_t index, uint32_t argument) {
    uint8_t frame[6] = {
        (uint8_t)(0x40 | index), (uint8_t)(argument >> 24), (uint8_t)(argument >> 16), (uint8_t)(argument >> 8),
        (uint8_t)argument, 0
    };
    int n;
    frame[5] = (uint8_t)(sd_crc7(frame, 5) << 1 | 1);
    for (n = 0; n < 6; n++) {
        exchange(card, frame[n]);
    }
    for (n = 0; n < 9; n++) {
        card->r1 = exchange(card, 0xff);
        if ((card->r1 & 0x80) == 0) {
            return true;
        }
    }
    return false;
}

/* Receives the 32 bits that follow R1 in an R3 or R7. */
static uint32_t word(struct sd_card *card) {
    uint32_t bits = 0;
    int n;
    for (n = 0; n < 4; n++) {
        bits = bits << 8 | exchange(card, 0xff);
    }
    return bits;
}

static enum sd_result init_selected(struct sd_card *card) {
    uint64_t end;
    uint32_t high_capacity = 0;
    int tries;
    for (tries = 0; !command(card, 0, 0) || card->r1 != R1_IDLE; tries++) {
        if (tries == 10) {
            return SD_NO_CARD;
        }
    }
    /* A card of version 1 does not know CMD8. */
    if (!command(card, 8, 0x1aa)) {
        return SD_NO_RESPONSE;
    }
    if ((card->r1 & R1_ILLEGAL_COMMAND) == 0) {
        if ((word(card) & 0xfff) != 0x1aa) {
            return SD_NOT_USABLE;
        }
        high_capacity = ARGUMENT_HCS;
    }
    /* Turns on the check of checksums, which is off by default in SPI mode. */
    if (!command(card, 59, 1) || (card->r1 & ~R1_IDLE) != 0) {
        return SD_REJECTED;
    }
    end = now(card) + INIT_LIMIT;
    do {
        if (now(card) > end) {
            return SD_INIT_TIMEOUT;
        }
        if (!command(card, 55, 0) || !command(card, 41, high_capacity)) {
            return SD_NO_RESPONSE;
        }
    } while (card->r1 == R1_IDLE);
    if (card->r1 != 0) {
        return SD_REJECTED;
    }
    if (!command(card, 58, 0)) {
        return SD_NO_RESPONSE;
    }
    card->addresses_blocks = (word(card) & OCR_CCS) != 0;
    if (!card->addresses_blocks && (!command(card, 16, SD_BLOCK) || card->r1 != 0)) {
        return SD_REJECTED;
    }
    return SD_OK;
}

enum sd_result sd_init(struct sd_card *card, flashlab_spi *spi, uint32_t clock_hz) {
    enum sd_result result;
    int n;
    card->spi = spi;
    card->addresses_blocks = false;
    set_clock(card, 400000);
    select_card(card, false);
    /* 74 clocks and more without chip select (section 6.4.1). */
    for (n = 0; n < 10; n++) {
        exchange(card, 0xff);
    }
    select_card(card, true);
    result = init_selected(card);
    select_card(card, false);
    set_clock(card, clock_hz);
    return result;
}

/* ---- Blocks ---- */

static enum sd_result start(struct sd_card *card, uint8_t index, uint32_t block) {
    uint32_t address = card->addresses_blocks ? block : block * SD_BLOCK;
    if (!command(card, index, address)) {
        return SD_NO_RESPONSE;
    }
    return card->r1 == 0 ? SD_OK : SD_REJECTED;
}

static enum sd_result read_selected(struct sd_card *card, uint32_t block, uint8_t *bytes) {
    enum sd_result result = start(card, 17, block);
    uint64_t end = now(card) + READ_LIMIT;
    uint16_t crc;
    uint8_t token;
    if (result != SD_OK) {
        return result;
    }
    do {
        token = exchange(card, 0xff);
        if (now(card) > end) {
            return SD_READ_TIMEOUT;
        }
    } while (token == 0xff);
    if (token != TOKEN_START) {
        return SD_READ_ERROR;
    }
    if (flashlab_spi_transfer(card->spi, NULL, bytes, SD_BLOCK, NULL) != FLASHLAB_OK) {
        abort();
    }
    crc = (uint16_t)(exchange(card, 0xff) << 8);
    crc |= exchange(card, 0xff);
    return crc == sd_crc16(bytes, SD_BLOCK) ? SD_OK : SD_READ_CRC;
}

static enum sd_result write_selected(struct sd_card *card, uint32_t block, const uint8_t *bytes) {
    enum sd_result result = start(card, 24, block);
    uint16_t crc = sd_crc16(bytes, SD_BLOCK);
    uint8_t response;
    int n;
    if (result != SD_OK) {
        return result;
    }
    exchange(card, 0xff);
    exchange(card, TOKEN_START);
    for (n = 0; n < SD_BLOCK; n++) {
        exchange(card, bytes[n]);
    }
    exchange(card, (uint8_t)(crc >> 8));
    exchange(card, (uint8_t)crc);
    response = exchange(card, 0xff) & RESPONSE_MASK;
    if (response == RESPONSE_CRC_ERROR) {
        return SD_WRITE_CRC;
    }
    if (response != RESPONSE_ACCEPTED) {
        return SD_WRITE_ERROR;
    }
    return wait_ready(card, WRITE_LIMIT) ? SD_OK : SD_WRITE_TIMEOUT;
}

enum sd_result sd_read(struct sd_card *card, uint32_t block, uint8_t *bytes) {
    enum sd_result result;
    select_card(card, true);
    result = read_selected(card, block, bytes);
    select_card(card, false);
    return result;
}

enum sd_result sd_write(struct sd_card *card, uint32_t block, const uint8_t *bytes) {
    enum sd_result result;
    select_card(card, true);
    result = write_selected(card, block, bytes);
    select_card(card, false);
    return result;
}
