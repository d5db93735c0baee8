/* A card on an SPI bus, with the driver in sd_spi.c: good cards, cards with quirks, power cuts, and mistakes. */

#include "check.h"
#include "sd_spi.h"

static flashlab_spi *open_card(const char *name, const char *quirk) {
    flashlab_options *options;
    flashlab_spi *spi;
    OK(flashlab_options_new(&options, &error));
    if (quirk != NULL) {
        OK(flashlab_options_add_quirk(options, quirk, &error));
    }
    OK(flashlab_spi_open(name, options, 400000, &spi, &error));
    flashlab_options_close(options);
    return spi;
}

static void fill(uint8_t *block, uint32_t seed) {
    size_t n;
    for (n = 0; n < SD_BLOCK; n++) {
        seed = seed * 1664525 + 1013904223;
        block[n] = (uint8_t)(seed >> 24);
    }
}

static void reads_back_what_it_wrote(const char *name, bool addresses_blocks) {
    flashlab_spi *spi = open_card(name, NULL);
    struct sd_card card;
    uint8_t block[SD_BLOCK], back[SD_BLOCK];
    uint32_t n;
    CHECK(sd_init(&card, spi, 25000000) == SD_OK);
    CHECK(card.addresses_blocks == addresses_blocks);
    for (n = 0; n < 8; n++) {
        fill(block, n);
        CHECK(sd_write(&card, 1000 + 3 * n, block) == SD_OK);
    }
    for (n = 0; n < 8; n++) {
        fill(block, n);
        CHECK(sd_read(&card, 1000 + 3 * n, back) == SD_OK);
        CHECK(memcmp(block, back, SD_BLOCK) == 0);
    }
    CHECK(sd_read(&card, UINT32_MAX, back) != SD_OK);
    CHECK(sd_read(&card, 1000, back) == SD_OK);
    flashlab_spi_close(spi);
}

/* Checks the results of bringing up a card with a quirk, of a write and of a read. */
static void with_quirk(const char *quirk, enum sd_result init, enum sd_result write, enum sd_result read) {
    flashlab_spi *spi = open_card("sd/kingston", quirk);
    struct sd_card card;
    uint8_t block[SD_BLOCK] = {0};
    enum sd_result results[3] = {SD_OK, SD_OK, SD_OK};
    results[0] = sd_init(&card, spi, 25000000);
    if (results[0] == SD_OK) {
        results[1] = sd_write(&card, 7, block);
        results[2] = sd_read(&card, 7, block);
    }
    if (results[0] != init || results[1] != write || results[2] != read) {
        fprintf(stderr, "%s: %d %d %d\n", quirk, (int)results[0], (int)results[1], (int)results[2]);
        exit(1);
    }
    flashlab_spi_close(spi);
}

static void written_blocks_survive_a_power_cut(void) {
    flashlab_spi *spi = open_card("sd/kingston", NULL);
    struct sd_card card;
    uint8_t block[SD_BLOCK], back[SD_BLOCK];
    fill(block, 1);
    CHECK(sd_init(&card, spi, 25000000) == SD_OK);
    CHECK(sd_write(&card, 5, block) == SD_OK);
    OK(flashlab_spi_power_cycle(spi, &error));
    CHECK(sd_read(&card, 5, back) == SD_NO_RESPONSE); /* The card is in native mode again. */
    CHECK(sd_init(&card, spi, 25000000) == SD_OK);
    CHECK(sd_read(&card, 5, back) == SD_OK && memcmp(block, back, SD_BLOCK) == 0);
    flashlab_spi_close(spi);
}

/* A transfer of an array has the answers and the duration of its single bytes. */
static void a_transfer_equals_single_bytes(void) {
    flashlab_spi *one = open_card("sd/kingston", NULL), *other = open_card("sd/kingston", NULL);
    uint8_t reset[16] = {0x40, 0, 0, 0, 0, 0x95, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    uint8_t answers[16];
    uint64_t now_one, now_other;
    int n;
    OK(flashlab_spi_transfer(one, NULL, NULL, 10, &error));
    OK(flashlab_spi_select(one, true, &error));
    for (n = 0; n < 10; n++) {
        OK(flashlab_spi_exchange(other, 0xff, &answers[0], &error));
    }
    OK(flashlab_spi_select(other, true, &error));
    for (n = 0; n < 16; n++) {
        OK(flashlab_spi_exchange(other, reset[n], &answers[n], &error));
    }
    OK(flashlab_spi_transfer(one, reset, reset, 16, &error)); /* In place. */
    CHECK(memcmp(reset, answers, 16) == 0);
    CHECK(memchr(answers, 1, 16) != NULL); /* R1: idle. */
    OK(flashlab_spi_now(one, &now_one, &error));
    OK(flashlab_spi_now(other, &now_other, &error));
    CHECK(now_one == now_other && now_one == 26 * UINT64_C(20000));
    OK(flashlab_spi_wait(one, 5, &error));
    OK(flashlab_spi_now(one, &now_one, &error));
    CHECK(now_one == now_other + 5);
    flashlab_spi_close(one);
    flashlab_spi_close(other);
}

static void a_quirk_begins_later(void) {
    flashlab_spi *spi = open_card("sd/kingston", NULL);
    struct sd_card card;
    flashlab_counter counters[64];
    size_t count;
    uint8_t block[SD_BLOCK] = {0};
    CHECK(sd_init(&card, spi, 25000000) == SD_OK);
    CHECK(sd_write(&card, 1, block) == SD_OK);
    OK(flashlab_spi_counters(spi, counters, 64, &count, &error));
    CHECK(count > 0);
    OK(flashlab_spi_add_quirk(spi, "read-only", &error));
    CHECK(sd_write(&card, 1, block) != SD_OK);
    FAILS(flashlab_spi_add_quirk(spi, "read-onyl", &error), FLASHLAB_ERROR_QUIRK, "read-only");
    flashlab_spi_close(spi);
}

static void mistakes_are_errors(void) {
    flashlab_spi *spi;
    FAILS(flashlab_spi_open("nvme/p32a80", NULL, 400000, &spi, &error), FLASHLAB_ERROR_NOT_A_CARD, "sd/");
    CHECK(spi == NULL);
    FAILS(flashlab_spi_open("sd/kingston", NULL, 0, &spi, &error), FLASHLAB_ERROR_ARGUMENT, "clock_hz is 0");
    OK(flashlab_spi_open("sd/kingston", NULL, 400000, &spi, &error));
    FAILS(flashlab_spi_transfer(spi, NULL, NULL, SIZE_MAX, &error), FLASHLAB_ERROR_ARGUMENT, "negative");
    FAILS(flashlab_spi_exchange(spi, 0, NULL, &error), FLASHLAB_ERROR_NULL, "received is NULL");
    FAILS(flashlab_spi_set_clock(spi, 0, &error), FLASHLAB_ERROR_ARGUMENT, "clock_hz is 0");
    FAILS(flashlab_spi_wait(spi, UINT64_MAX, &error), FLASHLAB_ERROR_ARGUMENT, "146 years");
    flashlab_spi_close(spi);
    flashlab_spi_close(NULL);
}

int main(void) {
    static const uint8_t reset[] = {0x40, 0, 0, 0, 0}, digits[] = "123456789";
    CHECK(sd_crc7(reset, 5) == 0x4a); /* Section 4.5: the frame of CMD0 ends with 0x95. */
    CHECK(sd_crc16(digits, 9) == 0x31c3); /* The check value of CRC-16/XMODEM. */
    reads_back_what_it_wrote("sd/kingston", true);
    reads_back_what_it_wrote("sd/qemu-sdsc", false);
    with_quirk("reset-retries=3", SD_OK, SD_OK, SD_OK);
    with_quirk("silent", SD_NO_CARD, SD_OK, SD_OK);
    with_quirk("busy=400ms", SD_OK, SD_OK, SD_OK);
    with_quirk("busy=700ms", SD_OK, SD_WRITE_TIMEOUT, SD_REJECTED);
    with_quirk("write-crc=1", SD_OK, SD_WRITE_CRC, SD_OK);
    with_quirk("read-crc=1", SD_OK, SD_OK, SD_READ_CRC);
    with_quirk("no-data", SD_OK, SD_OK, SD_READ_TIMEOUT);
    with_quirk("no-crc-mode", SD_REJECTED, SD_OK, SD_OK);
    written_blocks_survive_a_power_cut();
    a_transfer_equals_single_bytes();
    a_quirk_begins_later();
    mistakes_are_errors();
    return 0;
}
