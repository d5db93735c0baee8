/*
 * A unit test of an SPI driver for SD cards: a good card, and a card that is busy for too long. The driver is in
 * ../tests/c/sd_spi.c. Another driver needs only three functions for the bus: exchange a byte, drive chip select, and
 * read the time.
 *
 *     cc spi_card.c ../tests/c/sd_spi.c -I../tests/c $(pkg-config --cflags --libs flashlab) -o spi_card && ./spi_card
 */

#include "sd_spi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes a block to a card with a quirk, reads it back, and returns the result of the driver. */
static enum sd_result write_a_block(const char *quirk) {
    flashlab_options *options;
    flashlab_spi *spi;
    flashlab_error error;
    struct sd_card card;
    uint8_t block[SD_BLOCK], back[SD_BLOCK];
    uint64_t now_ns;
    enum sd_result result;

    if (flashlab_options_new(&options, &error) != FLASHLAB_OK ||
        (quirk != NULL && flashlab_options_add_quirk(options, quirk, &error) != FLASHLAB_OK) ||
        flashlab_spi_open("sd/kingston", options, 400000, &spi, &error) != FLASHLAB_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    memset(block, 0x5a, sizeof block);
    result = sd_init(&card, spi, 25000000);
    if (result == SD_OK) {
        result = sd_write(&card, 2048, block);
    }
    if (result == SD_OK) {
        result = sd_read(&card, 2048, back);
    }
    if (result == SD_OK && memcmp(block, back, sizeof block) != 0) {
        fprintf(stderr, "the card returned other bytes\n");
        exit(1);
    }
    flashlab_spi_now(spi, &now_ns, NULL);
    printf("%s: result %d after %.1f ms of simulated time\n", quirk == NULL ? "a good card" : quirk, (int)result,
           (double)now_ns / 1e6);
    flashlab_spi_close(spi);
    flashlab_options_close(options);
    return result;
}

int main(void) {
    return write_a_block(NULL) == SD_OK && write_a_block("busy=700ms") == SD_WRITE_TIMEOUT ? 0 : 1;
}
