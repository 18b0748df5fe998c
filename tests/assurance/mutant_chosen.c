/* SPDX-License-Identifier: MIT */
/* Which mutant is chosen (BP_MUTANT; 0: none), and a file that notes which ones a run comes by
 * (BP_MUTANT_TRACE, of as many bytes as there are mutants; it outlives a crash). */
#include "tests/assurance/mutant_chosen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int bp_mutant_chosen;
static unsigned char nowhere[1 << 22];
unsigned char *bp_mutant_reached = nowhere;

__attribute__((constructor)) static void choose(void)
{
    const char *number = getenv("BP_MUTANT");
    const char *path = getenv("BP_MUTANT_TRACE");
    bp_mutant_chosen = number != NULL ? atoi(number) : 0;
    int file = path != NULL ? open(path, O_RDWR) : -1;
    struct stat about;
    if (file >= 0 && fstat(file, &about) == 0) {
        void *bytes =
            mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (bytes != MAP_FAILED) {
            bp_mutant_reached = bytes;
        }
        close(file);
    }
}
