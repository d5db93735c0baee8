/* Checks of the C tests: a failed check prints its place, the condition and the error of the library, and ends the test. */
#ifndef CHECK_H
#define CHECK_H

#include <flashlab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The error of the last call that OK or FAILS checked. */
static flashlab_error error;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

/* Checks that the call, whose last argument is &error, returns the code, and that error has that code and the text. */
#define FAILS(call, expected, part) \
    do { \
        flashlab_code code_ = (call); \
        if (code_ != (expected) || error.code != code_ || strstr(error.text, part) == NULL) { \
            fprintf(stderr, "%s:%d: %s: %d (%s), error %d: %s\n", __FILE__, __LINE__, #call, (int)code_, \
                    flashlab_code_text(code_), (int)error.code, error.text); \
            exit(1); \
        } \
    } while (0)

#define OK(call) FAILS(call, FLASHLAB_OK, "")

#endif
