/* SPDX-License-Identifier: MIT */
/* Runs the example on a painted stack and prints how deep the paint was scratched. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES ((size_t)1 << 20)
#define PAINT       0xa5

int embed_main(void);

static void *run(void *code)
{
    *(int *)code = embed_main();
    return NULL;
}

int main(void)
{
    void *stack = NULL;
    pthread_attr_t attributes;
    pthread_t thread;
    int code = 1;
    if (posix_memalign(&stack, 4096, STACK_BYTES) != 0) {
        return 1;
    }
    memset(stack, PAINT, STACK_BYTES);
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstack(&attributes, stack, STACK_BYTES) != 0 ||
        pthread_create(&thread, &attributes, run, &code) != 0) {
        return 1;
    }
    pthread_join(thread, NULL);
    size_t untouched = 0;
    while (untouched < STACK_BYTES && ((unsigned char *)stack)[untouched] == PAINT) {
        untouched++;
    }
    printf("deepest stack %zu bytes, of which the system's thread descriptor and printf are part\n",
           STACK_BYTES - untouched);
    free(stack);
    return code;
}
